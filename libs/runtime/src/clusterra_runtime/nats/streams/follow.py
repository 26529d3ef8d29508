"""Follows a stream by direct get: no consumer, so nothing that a server could push to a subject of someone's choice."""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, last_sequence, read_page

log = structlog.get_logger(__name__)

EVERY_SECONDS = 0.05
"""The pause between looks: the longest that a message waits in an idle stream."""
PAGE_BYTES = 1024 * 1024
REST = 4.0
"""After a page the reader rests for this many times as long as `receive` took. So a stream that is never read to its
end, as during a flood, takes a fifth of the event loop's time. Waiting for the server's answer does not count: it would
make a reader late on a busy machine."""
_CHECK_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 5.0


class Follower:
    """Passes on what a stream stores, in its order, page by page."""

    def __init__(
        self, client: Client, stream: str, subject_filter: str, receive: Callable[[Sequence[Stored]], None]
    ) -> None:
        self._client = client
        self._stream = stream
        self._filter = subject_filter
        self._receive = receive
        self._position: int | None = None
        self._checked_at = 0.0
        self.working = False
        """Whether the last look succeeded."""

    @property
    def position(self) -> int | None:
        """The sequence up to which everything was passed on; None before the first look."""
        return self._position

    async def begin(self) -> None:
        """Start after what the stream holds now, instead of what it holds when `run` begins. Raises BusUnavailable."""
        self._position = await last_sequence(self._client, self._stream)
        self._checked_at = time.monotonic()

    async def run(self) -> None:
        """Follow until cancelled; `receive` gets an empty page when there is nothing new. Never raises."""
        backoff = Backoff(_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        while True:
            took = 0.0
            try:
                took = await self._look()
            except BusUnavailable as error:
                if self.working:
                    log.warning("stream_not_followed", stream=self._stream, reason=str(error))
                self.working = False
                await backoff.pause()
                continue
            except Exception:
                # A mistake with one page must not end the reader.
                log.exception("stream_page_failed", stream=self._stream)
            self.working = True
            backoff = Backoff(_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
            await asyncio.sleep(max(EVERY_SECONDS, REST * took))

    async def _look(self) -> float:
        """Pass on the next page. Returns how long `receive` took, in seconds."""
        if self._position is None:
            await self.begin()
        assert self._position is not None  # noqa: S101 - `begin` has set it
        page, _ = await read_page(self._client, self._stream, self._filter, after=self._position, max_bytes=PAGE_BYTES)
        if page:
            self._position = page[-1].sequence
        elif time.monotonic() - self._checked_at > _CHECK_SECONDS:
            # A stream may have lost its end: then it gives the same sequences again.
            self._checked_at = time.monotonic()
            self._position = min(self._position, await last_sequence(self._client, self._stream))
        began = time.monotonic()
        self._receive(page)
        return time.monotonic() - began
