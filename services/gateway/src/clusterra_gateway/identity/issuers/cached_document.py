"""Keeps a document of an issuer: all who need it share one fetch, and a failed fetch is not repeated at once."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

import structlog

from clusterra_gateway.http.requests.errors import Unavailable

log = structlog.get_logger()

FRESH_SECONDS = 3600.0
"""A document is fetched again when it is older."""
GRACE_SECONDS = 86_400.0
"""While the issuer fails, its last document is used until it is this old."""
FAILURE_SECONDS = 10.0
"""After a failed fetch the issuer is not asked again for this time."""


class CachedDocument[T]:
    """One document, fetched by `fetch`, which raises Unavailable when the issuer fails or its answer is invalid."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._document: tuple[T, float] | None = None
        self._failure: tuple[Unavailable, float] | None = None

    async def read(self) -> T:
        """The document; while the issuer fails, the last one within its grace. Raises Unavailable."""
        async with self._lock:
            kept = self._younger_than(FRESH_SECONDS)
            if kept is not None:
                return kept
            try:
                return await self._fetched()
            except Unavailable as error:
                kept = self._younger_than(GRACE_SECONDS)
                if kept is None:
                    raise
                log.warning("issuer_fails", reason=error.detail)
                return kept

    async def read_younger_than(self, seconds: float) -> T:
        """The document, fetched again if it is older. Raises Unavailable."""
        async with self._lock:
            kept = self._younger_than(seconds)
            return await self._fetched() if kept is None else kept

    def _younger_than(self, seconds: float) -> T | None:
        if self._document is not None and time.monotonic() < self._document[1] + seconds:
            return self._document[0]
        return None

    async def _fetched(self) -> T:
        if self._failure is not None:
            error, until = self._failure
            left = until - time.monotonic()
            if left > 0:
                raise Unavailable(error.detail, hint=error.hint, retry_after_seconds=math.ceil(left))
        try:
            document = await self._fetch()
        except Unavailable as error:
            self._failure = (error, time.monotonic() + FAILURE_SECONDS)
            retry_after = math.ceil(FAILURE_SECONDS)
            raise Unavailable(error.detail, hint=error.hint, retry_after_seconds=retry_after) from error
        self._document, self._failure = (document, time.monotonic()), None
        return document
