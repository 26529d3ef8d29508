"""The submits in flight in this process: their idempotency keys, and how many each user has."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from clusterra_proxy.slurmrestd.errors import Unavailable

TURNS = 2
"""How many submits of one user slurmrestd has at a time: it has four threads for all users of a cluster."""
MAX_WAITING = 256
"""How many submits of one user wait for a turn. Each may hold a script of megabytes."""


class Submitting:
    """The submits in flight in this process. The gateway's claim excludes others of the same key; this guards the
    claim, and keeps a user from occupying all threads of slurmrestd.
    """

    def __init__(self) -> None:
        self._keys: set[tuple[int, str]] = set()
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._present = Counter[int]()

    @asynccontextmanager
    async def turn(self, uid: int) -> AsyncIterator[None]:
        """Wait for one of the user's turns and hold it until the block ends.

        Raises Unavailable at once when too many submits of the user wait.
        """
        if self._present[uid] >= TURNS + MAX_WAITING:
            raise Unavailable(
                f"{self._present[uid]} submits of this user are in flight",
                hint="wait for their answers, or submit an array",
            )
        self._present[uid] += 1
        try:
            async with self._turns.setdefault(uid, asyncio.Semaphore(TURNS)):
                yield
        finally:
            self._present[uid] -= 1
            if not self._present[uid]:
                del self._present[uid], self._turns[uid]

    @contextmanager
    def alone(self, uid: int, key: str) -> Iterator[None]:
        """Hold a key until the block ends. Raises Unavailable when it is held."""
        if (uid, key) in self._keys:
            raise Unavailable("a submit with this Idempotency-Key is in flight", hint="ask again in a moment")
        self._keys.add((uid, key))
        try:
            yield
        finally:
            self._keys.remove((uid, key))
