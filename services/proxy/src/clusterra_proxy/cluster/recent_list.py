"""The last whole list of something in a cluster, for requests that no observation of the watcher can answer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from clusterra_contracts.identity import now

SHORTEST = timedelta(seconds=2)
LONGEST = timedelta(seconds=30)
_LISTS = 2


class RecentList[T]:
    """Keeps a list for as long as Slurm took for it, so that lists for requests take half of Slurm's time at most.

    While the next list is read, requests get the one before it, for as long again at most. Otherwise many clients who
    ask all the time would all wait for each list. `read` returns the list and when its read began.

    However many requests need it, one list is read at a time. It is read to its end even when all of them have given
    up, so that requests that are repeated get an answer in the end. With `abandons`, the read is cancelled with the
    last request that waits for it: for lists of which one user can ask for many.
    """

    def __init__(self, read: Callable[[], Awaitable[tuple[datetime, T]]], empty: T, *, abandons: bool = False) -> None:
        self._read_list = read
        self._empty = empty
        self._list = empty
        self._listed_at: datetime | None = None
        self._kept_until: datetime | None = None
        self._kept_for = timedelta()
        self._reading: asyncio.Task[T] | None = None
        self._abandons, self._waiting = abandons, 0

    @property
    def reading(self) -> bool:
        """Whether it is being read now."""
        return self._reading is not None

    @property
    def kept(self) -> T:
        """The list that is kept; the empty one where there is none."""
        return self._list

    def forget(self) -> None:
        """Keep the list no longer. One that is being read is kept afterwards."""
        self._list, self._listed_at = self._empty, None

    async def get(self, changed_at: datetime | None = None) -> T:
        """Return the list; one from before `changed_at` is read again.

        Raises the errors of `clusterra_proxy.slurmrestd.errors`.
        """
        found = self._empty
        for _ in range(_LISTS):
            at = now()
            if self._kept(changed_at, at):
                return self._list
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._on_read)
            if self._kept(changed_at, at - self._kept_for):
                return self._list
            # It may be forgotten for another list before this request goes on.
            found = await self._wait(self._reading)
        return found

    async def _wait(self, reading: asyncio.Task[T]) -> T:
        self._waiting += 1
        try:
            return await asyncio.shield(reading)
        finally:
            self._waiting -= 1
            if self._abandons and not self._waiting and self._reading is reading:
                self._reading = None
                reading.cancel()

    async def close(self) -> None:
        """Give up a list that is being read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _kept(self, changed_at: datetime | None, at: datetime) -> bool:
        if self._listed_at is None or self._kept_until is None or at >= self._kept_until:
            return False
        return changed_at is None or self._listed_at >= changed_at

    async def _read(self) -> T:
        self._listed_at, found = await self._read_list()
        self._list = found
        self._kept_for = max(SHORTEST, min(now() - self._listed_at, LONGEST))
        self._kept_until = now() + self._kept_for
        asyncio.get_running_loop().call_later(2 * self._kept_for.total_seconds(), self._forget_old, self._listed_at)
        return found

    def _on_read(self, reading: asyncio.Task[T]) -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            # Whoever waited has raised it.
            reading.exception()

    def _forget_old(self, listed_at: datetime) -> None:
        if self._listed_at == listed_at:
            self.forget()
