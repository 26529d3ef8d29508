"""Turns of directories: how much one tenant's asks for at a time. A request may be about thousands of users."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from clusterra_gateway.http.requests.errors import TooManyRequests

AT_ONCE = 2
MAX_PRESENT = 100
"""The most requests of one tenant that have a turn or wait for one."""


class DirectoryTurns:
    """The requests of directories in this process, each tenant's a few at a time."""

    def __init__(self) -> None:
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()
        self._present = Counter[str]()

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for one of the tenant's turns and hold it until the block ends. Raises TooManyRequests at once."""
        if self._present[tenant] >= MAX_PRESENT:
            raise TooManyRequests("too many requests of your directory are under way", hint="wait for their answers")
        turns = self._turns.setdefault(tenant, asyncio.Semaphore(AT_ONCE))
        self._present[tenant] += 1
        try:
            async with turns:
                yield
        finally:
            self._present[tenant] -= 1
            if not self._present[tenant]:
                del self._present[tenant]


TURNS = DirectoryTurns()
