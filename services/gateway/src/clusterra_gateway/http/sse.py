"""Server-Sent Events: writing a source of events to one client, with pings, and ending it in time."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from clusterra_gateway.http.errors import InvalidRequest

log = structlog.get_logger()

PING_SECONDS = 15.0
"""Proxies between cut connections on which nothing moves; a write is also how a client's leaving shows."""

RETRY_SECONDS = (1.0, 3.0)
"""Each client is told its own delay before it reconnects, so that a restart does not bring all back at once."""

STOPPING = web.AppKey("stopping", asyncio.Event)
"""Set when the process stops: streams end then, and their clients resume elsewhere."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. Line ends in `data` may be of any kind; clients get them as LF, for SSE knows no other."""

    data: str
    event: str | None = None
    id: int | None = None

    def encode(self) -> bytes:
        """The event's lines as WHATWG's standard has them."""
        lines = []
        if self.event is not None:
            lines.append(f"event: {self.event}")
        if self.id is not None:
            lines.append(f"id: {self.id}")
        plain = self.data.replace("\r\n", "\n").replace("\r", "\n")
        lines.extend(f"data: {line}" for line in plain.split("\n"))
        return ("\n".join(lines) + "\n\n").encode()


def last_event_id(request: web.Request) -> int | None:
    """Where the client wants to go on. Raises InvalidRequest for anything but a whole number."""
    given = request.headers.get("Last-Event-ID", "")
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise InvalidRequest(
            "Last-Event-ID is no id of this stream", hint="send back the last `id:` you got, or none to start anew"
        )
    return int(given)


async def stream(
    request: web.Request,
    source: AsyncGenerator[ServerSentEvent],
    *,
    allowed: Callable[[], Awaitable[bool]],
) -> web.StreamResponse:
    """Write `source` until it ends, the client leaves, the process stops, or `allowed` says no (asked every ping).

    The source is closed in every case.
    """
    response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    stopping = asyncio.create_task(request.app[STOPPING].wait())
    step: asyncio.Task[ServerSentEvent | None] | None = None
    loop = asyncio.get_running_loop()
    try:
        await response.prepare(request)
        await response.write(f"retry: {random.randint(*(int(s * 1000) for s in RETRY_SECONDS))}\n\n".encode())  # noqa: S311
        ping_at = loop.time() + PING_SECONDS
        while True:
            if step is None:
                step = asyncio.create_task(_next(source))
            await asyncio.wait(
                {step, stopping}, timeout=max(0.0, ping_at - loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            if stopping.done():
                break
            if step.done():
                event, step = step.result(), None
                if event is None:
                    break
                await response.write(event.encode())
            if loop.time() >= ping_at:
                if not await allowed():
                    break
                await response.write(b": ping\n\n")
                ping_at = loop.time() + PING_SECONDS
    except ConnectionResetError:
        pass  # the client has left, which is how most streams end
    except Exception:
        # The status is long sent: a client that comes again is answered with the problem.
        log.exception("stream_failed", path=request.path)
    finally:
        await _cancelled(stopping)
        if step is not None:
            await _cancelled(step)
        await source.aclose()
    return response


async def _next(source: AsyncGenerator[ServerSentEvent]) -> ServerSentEvent | None:
    return await anext(source, None)


async def _cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.wait({task})
