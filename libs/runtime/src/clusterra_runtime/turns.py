"""Turns on the event loop: of many tasks that have work at the same time, one begins in each iteration of the loop.

asyncio runs everything that is ready in one iteration, and looks for input only after it. When a thousand clusters have
work at once, that one iteration takes as long as all of their work, and meanwhile no answer is read and no lease is
renewed. With turns, answers and leases wait for one piece of work at most. Whoever waits for a turn should look at the
newest input only when the turn has come: so work that piles up becomes less, not more.
"""

import asyncio
from collections import deque


class Turns:
    """A first-in-first-out queue for the turns of one event loop. It holds one entry for each task that waits."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._granting = False

    async def take(self) -> None:
        """Wait for a turn. Others who wait have theirs in later iterations of the event loop."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._granting:
            self._granting = True
            loop.call_soon(self._grant, loop)
        await turn

    def _grant(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                loop.call_soon(self._grant, loop)
                return
        self._granting = False
