"""Limits what a caller may take, so that no program takes the gateway from the others: requests, and open streams.

Reads, changes and deletions are counted apart: a caller who has listed too often can still cancel a job. Each replica
counts for itself.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakSet

from aiohttp import web
from clusterra_runtime.rate_limit import RateLimit

from clusterra_gateway.http.answers.responses import EXTRA_HEADERS
from clusterra_gateway.http.requests.errors import TooManyRequests

_KINDS = {"GET": "reads", "HEAD": "reads", "DELETE": "deletions"}
_WINDOW_SECONDS = 60
MAX_STREAMS = 50
"""A browser opens one for all its tabs' events; a program may follow the outputs of many jobs."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How many requests a caller may send to a replica at once, and in each further minute."""

    reads: int
    changes: int
    """Also the limit of deletions, which are counted apart."""


class RateLimits:
    """A token bucket for each caller and kind of request."""

    def __init__(self, rates: Rates) -> None:
        limits = {"reads": rates.reads, "changes": rates.changes, "deletions": rates.changes}
        self._limits = {kind: RateLimit(limit / _WINDOW_SECONDS, limit) for kind, limit in limits.items()}

    def admit(self, request: web.Request, caller: str) -> None:
        """Counts a request of this caller, and has its response say how many are left. Raises TooManyRequests."""
        kind = _KINDS.get(request.method, "changes")
        limit = self._limits[kind]
        taken = limit.take(caller)
        request[EXTRA_HEADERS] = {
            "RateLimit-Limit": str(limit.burst),
            "RateLimit-Remaining": str(taken.left),
            "RateLimit-Reset": str(max(math.ceil(taken.full_seconds), 1)),
        }
        if not taken.admitted:
            raise TooManyRequests(
                f"you have sent more than {limit.burst} {kind} in the last minute",
                hint="wait for the seconds in Retry-After; the events stream tells changes without asking again",
                retry_after_seconds=max(math.ceil(taken.next_seconds), 1),
            )


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
