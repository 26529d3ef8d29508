"""What a patient client does while a service is away: it asks again, and resumes a stream where it broke off."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import ClientConnectionError, ClientPayloadError

from clusterra_lab.parts.api_errors import UnavailableError
from clusterra_lab.parts.sse import ServerSentEvent

AWAY = (UnavailableError, ClientConnectionError, ClientPayloadError, TimeoutError)
"""Errors of a call that may succeed later."""
PATIENCE_SECONDS = 90.0
"""On a busy machine slurmctld has been busy for ten seconds, and an unknown outcome of a submit settles within 52 s."""
_AGAIN_SECONDS = 0.5


async def patiently[T](call: Callable[[], Awaitable[T]], *, seconds: float = PATIENCE_SECONDS) -> T:
    """Repeat a call while its service is away. Raises its last error after `seconds`.

    A call that was not answered may have been carried out, so a submit needs an idempotency key.
    """
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
