"""Turns of users: how much of a cluster's Slurm one user may occupy at a time, whatever they ask for."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_proxy.slurmrestd.errors import Unavailable

MAX_WAITING = 256
"""How many requests of one user wait for a turn. Each may hold a script of megabytes."""


class UserTurns:
    """The requests of users in this process, each of them with a few at a time."""

    def __init__(self, at_once: int, what: str) -> None:
        """`what` they are, such as `submits`."""
        self._at_once = at_once
        self._what = what
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._present = Counter[int]()

    @asynccontextmanager
    async def turn(self, uid: int) -> AsyncIterator[None]:
        """Wait for one of the user's turns and hold it until the block ends.

        Raises Unavailable at once when too many requests of the user wait.
        """
        if self._present[uid] >= self._at_once + MAX_WAITING:
            raise Unavailable(
                f"{self._present[uid]} {self._what} of this user are in flight",
                hint="wait for their answers, or submit an array",
            )
        self._present[uid] += 1
        try:
            async with self._turns.setdefault(uid, asyncio.Semaphore(self._at_once)):
                yield
        finally:
            self._present[uid] -= 1
            if not self._present[uid]:
                del self._present[uid], self._turns[uid]
