"""Limits how many requests a caller may send, so that no program takes the gateway from the others.

Reads, changes and deletions are counted apart: a caller who has listed too often can still cancel a job. Each replica
counts for itself.
"""

import math
from dataclasses import dataclass

from aiohttp import web
from clusterra_runtime.rate_limit import RateLimit

from clusterra_gateway.http.answers.middleware import EXTRA_HEADERS
from clusterra_gateway.http.requests.errors import TooManyRequests

_KINDS = {"GET": "reads", "HEAD": "reads", "DELETE": "deletions"}
_WINDOW_SECONDS = 60


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
