"""Turns by key: how many of a user or tenant work at a time, and how many wait, so that others go on beside them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager


class TooManyWait(Exception):
    """Too many requests of a key wait or work already."""

    def __init__(self, present: int) -> None:
        super().__init__(f"{present} requests of this key wait or work: try again in a moment")


class KeyedTurns[K: Hashable]:
    """A few turns for each key at a time. Keys that nobody has at present take no memory."""

    def __init__(self, at_once: int, most_waiting: int, refusal: Callable[[int], Exception] = TooManyWait) -> None:
        """`at_once` turns of a key at a time, and `most_waiting` more wait.

        `refusal` makes the error for those beyond, from the number of those that wait or work.
        """
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._refusal = refusal
        self._turns: dict[K, asyncio.Semaphore] = {}
        self._present = Counter[K]()

    @asynccontextmanager
    async def turn(self, key: K) -> AsyncIterator[None]:
        """Wait for a turn of a key and hold it until the block ends. Raises what `refusal` makes, at once."""
        if self._present[key] >= self._at_once + self._most_waiting:
            raise self._refusal(self._present[key])
        self._present[key] += 1
        try:
            async with self._turns.setdefault(key, asyncio.Semaphore(self._at_once)):
                yield
        finally:
            self._present[key] -= 1
            if not self._present[key]:
                del self._present[key], self._turns[key]
