"""Pauses between the attempts of what fails again and again: longer each time, with jitter and a cap."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable


class Backoff:
    """The pauses of one retried operation.

    Each pause is at most `growth` times the one before, from `first_seconds` up to `longest_seconds`, and at least half
    of that, so that many who failed together do not come back together. After a success, or when an attempt has lasted
    longer than the longest pause, the pauses begin anew.
    """

    def __init__(self, first_seconds: float, longest_seconds: float, *, growth: float = 2.0) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._growth = growth
        self._next = first_seconds
        self._ended_at: float | None = None

    async def pause(self) -> None:
        """Wait before the next attempt."""
        if self._ended_at is not None and time.monotonic() - self._ended_at > self._longest:
            self.succeeded()
        await asyncio.sleep(self.next_seconds())
        self._ended_at = time.monotonic()

    def next_seconds(self) -> float:
        """Return the length of the next pause, for a caller that waits by other means."""
        seconds, self._next = self._next, min(self._growth * self._next, self._longest)
        return seconds * random.uniform(0.5, 1.0)  # noqa: S311

    def succeeded(self) -> None:
        """Begin anew with the first pause."""
        self._next = self._first


async def retry[T](
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    on: type[Exception] | Callable[[Exception], bool],
    attempts: int | None = None,
    seconds: float | None = None,
) -> T:
    """Return what `attempt` returns, after as many attempts as it takes. `on` says which errors are worth another one.

    Raises the last error after `attempts`, and when another one would begin more than `seconds` after the first.
    """
    ends = None if seconds is None else time.monotonic() + seconds
    number = 1
    while True:
        try:
            return await attempt()
        except Exception as error:
            pause = backoff.next_seconds()
            worth = isinstance(error, on) if isinstance(on, type) else on(error)
            if not worth or number == attempts or (ends is not None and time.monotonic() + pause > ends):
                raise
        await asyncio.sleep(pause)
        number += 1
