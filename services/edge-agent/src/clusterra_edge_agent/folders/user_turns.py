"""Leaves threads to others beside a user whose files take long.

A user can hold their own up: by a slow folder, or where jobs run on the agent's host by stopping the process that opens
files as them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_edge_agent.folders.failures import failed


class _Turns:
    def __init__(self, at_once: int) -> None:
        self.free = asyncio.Semaphore(at_once)
        self.wanted = 0


class UserTurns:
    """How many threads each user has at a time, and how many of their requests wait for one."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most = at_once + waiting
        self._of: dict[int, _Turns] = {}

    @asynccontextmanager
    async def taken(self, uid: int) -> AsyncIterator[None]:
        """Waits for a turn, which lasts until the block ends. Raises RpcFailed where too many wait already."""
        turns = self._of.setdefault(uid, _Turns(self._at_once))
        if turns.wanted >= self._most:
            raise failed("unavailable", "too many of your requests are under way at this edge", "try again in a minute")
        turns.wanted += 1
        try:
            async with turns.free:
                yield
        finally:
            turns.wanted -= 1
            if not turns.wanted:
                del self._of[uid]
