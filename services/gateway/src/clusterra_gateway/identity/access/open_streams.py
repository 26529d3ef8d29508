"""The streams that are open at this replica: how many a person may have, and whether each is still allowed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from clusterra_gateway.http.requests.errors import TooManyRequests

MAX_STREAMS = 50
"""A browser opens one for all its tabs' events; a program may follow the outputs of many jobs."""


class StreamPermission:
    """Whether a stream may continue. `changed` is set when this must be checked again immediately."""

    def __init__(self, tenant: str, check: Callable[[], Awaitable[bool]]) -> None:
        self.tenant = tenant
        self.changed = asyncio.Event()
        self._check = check

    async def holds(self) -> bool:
        """Asks whether the stream is still allowed."""
        self.changed.clear()
        return await self._check()


class OpenStreams:
    """Counts the open streams of each person, because each holds a queue of events and a connection."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._permissions: WeakSet[StreamPermission] = WeakSet()

    @contextmanager
    def opened(self, member_id: str) -> Iterator[None]:
        """Counts one stream until the block ends. Raises TooManyRequests."""
        if self._open[member_id] >= MAX_STREAMS:
            raise TooManyRequests(
                f"you have {MAX_STREAMS} streams open", hint="close one, or follow all events in one stream"
            )
        self._open[member_id] += 1
        try:
            yield
        finally:
            self._open[member_id] -= 1
            if not self._open[member_id]:
                del self._open[member_id]

    def permission(self, tenant: str, check: Callable[[], Awaitable[bool]]) -> StreamPermission:
        """The permission of a stream of this tenant, which `recheck` reaches for as long as somebody holds it."""
        permission = StreamPermission(tenant, check)
        self._permissions.add(permission)
        return permission

    def recheck(self, tenant: str) -> None:
        """Makes all streams of a tenant ask again whether they are allowed."""
        for permission in self._permissions:
            if permission.tenant == tenant:
                permission.changed.set()
