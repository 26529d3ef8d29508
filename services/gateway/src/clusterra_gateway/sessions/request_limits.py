"""Concurrency limits: how many requests to sessions one replica passes on at a time, of a person and of a tenant.

Each request takes a connection for as long as the session's server likes: its answer may take hours, and the edge is
the tenant's own. So no person and no tenant may take all connections.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_gateway.http.requests.errors import TooManyRequests
from clusterra_gateway.sessions.connector import MAX_CONNECTIONS
from clusterra_gateway.sessions.page_cookie import PageClaims

MAX_OF_PERSON = 100
"""A browser has some six to an origin; over HTTP/2 it may ask for a hundred at once."""
MAX_OF_TENANT = MAX_CONNECTIONS * 3 // 4
"""So that an installation for one tenant has most of them, and others always have some."""


class RequestLimits:
    """Counts the requests under way."""

    def __init__(self) -> None:
        self._of_person: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    @contextmanager
    def taken(self, claims: PageClaims) -> Iterator[None]:
        """Counts a request until the block ends. Raises TooManyRequests."""
        if self._of_person[claims.member] >= MAX_OF_PERSON:
            raise TooManyRequests(
                f"{MAX_OF_PERSON} of your requests to sessions are not answered yet", hint="close some pages"
            )
        if self._of_tenant[claims.tenant] >= MAX_OF_TENANT:
            raise TooManyRequests("too many requests to sessions of your workspace are not answered yet")
        counts = ((self._of_person, claims.member), (self._of_tenant, claims.tenant))
        for count, name in counts:
            count[name] += 1
        try:
            yield
        finally:
            for count, name in counts:
                count[name] -= 1
                if not count[name]:
                    del count[name]
