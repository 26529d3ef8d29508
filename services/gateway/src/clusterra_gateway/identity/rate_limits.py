"""Limits how many requests a caller may send, so that no program takes the gateway from the others.

Reads, changes and deletions are counted apart: a caller who has listed too often can still cancel a job. Each replica
counts for itself.
"""

import math
import time
from dataclasses import dataclass

from aiohttp import web
from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from clusterra_gateway.http.errors import TooManyRequests
from clusterra_gateway.http.middleware import EXTRA_HEADERS

_KINDS = {"GET": "reads", "HEAD": "reads", "DELETE": "deletions"}


@dataclass(frozen=True, slots=True)
class Rates:
    """How many requests a caller may send to a replica in a minute."""

    reads: int
    changes: int
    """Also the limit of deletions, which are counted apart."""


class RateLimits:
    """Counts the requests of each caller over the last minute. A caller's counters expire with their last request."""

    def __init__(self, rates: Rates) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        changes = RateLimitItemPerMinute(rates.changes)
        self._limits = {"reads": RateLimitItemPerMinute(rates.reads), "changes": changes, "deletions": changes}

    async def admit(self, request: web.Request, caller: str) -> None:
        """Counts a request of this caller, and has its response say how many are left. Raises TooManyRequests."""
        kind = _KINDS.get(request.method, "changes")
        limit = self._limits[kind]
        admitted = await self._limiter.hit(limit, caller, kind)
        window = await self._limiter.get_window_stats(limit, caller, kind)
        reset_seconds = max(math.ceil(window.reset_time - time.time()), 1)
        request[EXTRA_HEADERS] = {
            "RateLimit-Limit": str(limit.amount),
            "RateLimit-Remaining": str(window.remaining),
            "RateLimit-Reset": str(reset_seconds),
        }
        if not admitted:
            raise TooManyRequests(
                f"you have sent more than {limit.amount} {kind} in the last minute",
                hint="wait for the seconds in Retry-After; the events stream tells changes without asking again",
                retry_after_seconds=reset_seconds,
            )
