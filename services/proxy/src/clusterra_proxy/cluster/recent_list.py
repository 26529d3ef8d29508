"""The last whole list of a cluster's jobs, for requests that no observation of the watcher can answer."""

import asyncio
from datetime import datetime, timedelta

from clusterra_contracts.identity import now

from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld

SHORTEST = timedelta(seconds=2)
LONGEST = timedelta(seconds=30)
_LISTS = 2


class RecentList:
    """Keeps a list for as long as Slurm took for it, so that lists for requests take half of Slurm's time at most.

    However many requests need it, one list is read at a time. It is read to its end even when all of them have given
    up, so that requests that are repeated get an answer in the end.
    """

    def __init__(self, slurmctld: Slurmctld) -> None:
        self._slurmctld = slurmctld
        self._records: tuple[JobRecord, ...] = ()
        self._listed_at: datetime | None = None
        self._kept_until: datetime | None = None
        self._reading: asyncio.Task[None] | None = None

    async def records(self, token: str, changed_at: datetime | None = None) -> tuple[JobRecord, ...]:
        """Return all records of slurmctld; a list from before `changed_at` is read again.

        Raises the errors of `clusterra_proxy.slurmrestd.errors`.
        """
        for _ in range(_LISTS):
            if self._kept(changed_at):
                break
            if self._reading is None:
                self._reading = asyncio.create_task(self._read(token))
                self._reading.add_done_callback(self._on_read)
            await asyncio.shield(self._reading)
        return self._records

    async def close(self) -> None:
        """Give up a list that is being read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _kept(self, changed_at: datetime | None) -> bool:
        if self._listed_at is None or self._kept_until is None or now() >= self._kept_until:
            return False
        return changed_at is None or self._listed_at >= changed_at

    async def _read(self, token: str) -> None:
        listed = await self._slurmctld.jobs(token)
        if listed is None:
            return
        self._listed_at, self._records = listed[0], listed[1]
        kept = max(SHORTEST, min(now() - self._listed_at, LONGEST))
        self._kept_until = now() + kept
        asyncio.get_running_loop().call_later(kept.total_seconds(), self._forget, self._listed_at)

    def _on_read(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if not reading.cancelled():
            # Whoever waited has raised it.
            reading.exception()

    def _forget(self, listed_at: datetime) -> None:
        if self._listed_at == listed_at:
            self._records, self._listed_at = (), None
