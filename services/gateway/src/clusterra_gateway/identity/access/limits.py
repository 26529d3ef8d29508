"""Limits what a caller may take, so that none takes the gateway from the others: requests, streams, wrong tokens.

Reads, changes and deletions are counted apart: a caller who has listed too often can still cancel a job. Each replica
counts for itself.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from weakref import WeakSet

from aiohttp import web
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.rate_limit import RateLimit

from clusterra_gateway.http.answers.responses import EXTRA_HEADERS
from clusterra_gateway.http.requests.errors import TooManyRequests

_KINDS = {"GET": "reads", "HEAD": "reads", "DELETE": "deletions"}
_WINDOW_SECONDS = 60
MAX_STREAMS = 50
"""A browser opens one for all its tabs' events; a program may follow the outputs of many jobs."""
STREAM_PLACES = 2000
"""Of all people's streams and other long answers. Each may hold some 100 KiB until its client has read them."""
TENANT_SHARE = 3
"""A tenant may take this many times what is left free: three quarters of all places if it is alone. So a place is left
for each further tenant, and the more there are, the less each may take (the dynamic threshold of shared buffers)."""
WRONG_PER_MINUTE = 1000
"""How many tokens that do not exist an address may send at once, and in each further minute."""
MAX_KNOWN = 20_000
KNOWN_SECONDS = 24 * 3600.0
"""How long a token counts as known after it was valid."""


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


class WrongTokens:
    """Counts the tokens that do not exist, by the address they come from: each of them takes a read of the store.

    Beyond the limit only tokens are looked up that were valid within a day: whoever shares the address goes on working.
    """

    def __init__(self) -> None:
        self._limit = RateLimit(WRONG_PER_MINUTE / _WINDOW_SECONDS, WRONG_PER_MINUTE)
        self._known = BoundedCache[str, bool](MAX_KNOWN)

    def admit(self, address: str, digest: str) -> None:
        """Raises TooManyRequests where a token with this hash is not to be looked up."""
        if self._known.get(digest) is None and (wait := self._limit.seconds_to_next(address)) > 0:
            raise TooManyRequests(
                f"your address has sent more than {WRONG_PER_MINUTE} wrong tokens in the last minute",
                hint="wait for the seconds in Retry-After, and send a token that exists",
                retry_after_seconds=max(math.ceil(wait), 1),
            )

    def count(self, address: str) -> None:
        """Counts a token that does not exist."""
        self._limit.take(address)

    def remember(self, digest: str) -> None:
        """Notes that a token is valid."""
        self._known.put(digest, True, seconds=KNOWN_SECONDS)


class Places:
    """Places that people hold at the same time, and that tenants share."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._of_person: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """How many are taken."""
        return self._of_tenant.total()

    @contextmanager
    def taken(self, tenant: str, person: str, *, most: int, weight: int = 1) -> Iterator[None]:
        """Takes `weight` places until the block ends. `most`: of one person. Raises TooManyRequests."""
        if self._of_person[person] + weight > most:
            raise TooManyRequests(
                f"you have {self._of_person[person]} requests under way, and {most} are allowed at a time",
                hint="let some end, or follow all events in one stream",
            )
        free = self._capacity - self.held - weight
        if self._of_tenant[tenant] + weight > TENANT_SHARE * free:
            raise TooManyRequests(
                "too many requests of your workspace are under way", hint="let some end, and try again"
            )
        counts = ((self._of_person, person), (self._of_tenant, tenant))
        for count, name in counts:
            count[name] += weight
        try:
            yield
        finally:
            for count, name in counts:
                count[name] -= weight
                if not count[name]:
                    del count[name]


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
    """Counts the open streams of each person and tenant, because each holds a queue of events and a connection."""

    def __init__(self) -> None:
        self._places = Places(STREAM_PLACES)
        self._permissions: WeakSet[StreamPermission] = WeakSet()

    @property
    def open(self) -> int:
        """How many are open, each by its weight."""
        return self._places.held

    def opened(self, tenant: str, member_id: str, weight: int = 1) -> AbstractContextManager[None]:
        """Counts a stream until the block ends, as `weight` ones. Raises TooManyRequests."""
        return self._places.taken(tenant, member_id, most=MAX_STREAMS, weight=weight)

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
