"""What a patient client does while a service is away: it asks again, and resumes a stream where it broke off."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import ClientConnectionError, ClientPayloadError

from clusterra_lab.parts.sse import ServerSentEvent
from clusterra_lab.parts.user import UnavailableError

AWAY = (UnavailableError, ClientConnectionError, ClientPayloadError, TimeoutError)
"""Errors of a call that may succeed later."""
PATIENCE_SECONDS = 90.0
_AGAIN_SECONDS = 0.5


async def patiently[T](call: Callable[[], Awaitable[T]], *, seconds: float = PATIENCE_SECONDS) -> T:
    """Repeat an idempotent call while its service is away. Raises its last error after `seconds`."""
    started = time.monotonic()
    while True:
        try:
            return await call()
        except AWAY:
            if time.monotonic() - started > seconds:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)


async def resumed(stream: Callable[[str], AsyncIterator[ServerSentEvent]]) -> AsyncIterator[ServerSentEvent]:
    """Iterate over a stream of events for as long as the caller wants, and resume it whenever it breaks off or ends.

    `stream` opens the stream after the event with the given id.
    """
    last = ""
    while True:
        try:
            async for event in stream(last):
                last = event.id or last
                yield event
        except AWAY:
            pass
        await asyncio.sleep(_AGAIN_SECONDS)
