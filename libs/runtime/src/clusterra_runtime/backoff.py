"""Pauses between the attempts of what fails again and again: longer each time, with jitter and a cap."""

import asyncio
import random
import time


class Backoff:
    """The pauses of one retried operation.

    Each pause is at most twice the one before, from `first_seconds` up to `longest_seconds`, and at least half of that,
    so that many who failed together do not come back together. After a success, or when an attempt has lasted longer
    than the longest pause, the pauses begin anew.
    """

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
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
        seconds, self._next = self._next, min(2 * self._next, self._longest)
        return seconds * random.uniform(0.5, 1.0)  # noqa: S311

    def succeeded(self) -> None:
        """Begin anew with the first pause."""
        self._next = self._first
