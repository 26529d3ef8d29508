"""Server-Sent Events: writes events to one client, with pings, until the stream must end."""

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiohttp import web

from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.answers.streams import write
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.long_transfers import counted_transfer
from clusterra_gateway.http.requests.parameters import Parameter

log = structlog.get_logger()

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = Parameter("Last-Event-ID", "header", "^[0-9]{1,18}$")
EVENT_POSITION = "Event-Position"
"""The response header of a list with the Last-Event-ID from which a client follows the stream of events."""


def at_position(position: int | None) -> Mapping[str, str]:
    """The header of a list that has every event up to a position; none where that is not known."""
    return {} if position is None else {EVENT_POSITION: str(position)}


PING_SECONDS = 15.0
"""Intermediate proxies cut idle connections, and only a write shows that a client has left."""

RETRY_SECONDS = (1.0, 3.0)
"""Range of the reconnect delay. Each client gets its own, so that they do not all return at once after a restart."""

STOPPING = web.AppKey("stopping", asyncio.Event)
"""Set when the process stops: streams end then, and their clients resume on another replica."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. Line ends in `data` may be of any kind; they are sent as LF, the only kind that SSE can carry."""

    data: str
    event: str | None = None
    id: int | None = None

    def encode(self) -> bytes:
        """The event in the format of the WHATWG standard."""
        lines = []
        if self.event is not None:
            lines.append(f"event: {self.event}")
        if self.id is not None:
            lines.append(f"id: {self.id}")
        plain = self.data.replace("\r\n", "\n").replace("\r", "\n")
        lines.extend(f"data: {line}" for line in plain.split("\n"))
        return ("\n".join(lines) + "\n\n").encode()


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    """Events that are encoded already, and written at once."""

    data: bytes

    def encode(self) -> bytes:
        """The events in the format of the WHATWG standard."""
        return self.data


type Written = ServerSentEvent | EncodedEvents


def last_event_id(request: web.Request) -> int | None:
    """The id after which the client wants to resume; None for a new stream. Raises InvalidRequest."""
    given = request.headers.get(LAST_EVENT_ID.name, "")
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise InvalidRequest(
            "Last-Event-ID is not an id of this stream",
            hint="send the last `id:` that you received, or no Last-Event-ID to start a new stream",
        )
    return int(given)


class Permission(Protocol):
    """Whether a stream may go on."""

    changed: asyncio.Event
    """Set when that must be asked again at once."""

    async def holds(self) -> bool:
        """Asks, and clears `changed`."""
        ...


async def stream(request: web.Request, source: AsyncGenerator[Written], permission: Permission) -> web.StreamResponse:
    """Writes `source` until it ends, the client leaves, the process stops, or the permission no longer holds.

    The permission is asked before every ping, and when it may have changed. The source is closed in every case.
    Raises TooManyRequests.
    """
    with counted_transfer(request):
        return await _written(request, source, permission)


async def _written(request: web.Request, source: AsyncGenerator[Written], permission: Permission) -> web.StreamResponse:
    response = web.StreamResponse(headers={**NO_STORE, "X-Accel-Buffering": "no"})
    response.content_type = EVENT_STREAM
    response.charset = "utf-8"
    tasks = list[asyncio.Task[None]]()
    try:
        await response.prepare(request)
        retry = random.randint(*(int(seconds * 1000) for seconds in RETRY_SECONDS))  # noqa: S311
        await write(request, response, f"retry: {retry}\n\n".encode())
        watch = _Watch(request, response, permission)
        # Whichever ends first ends the stream. Two tasks for all of it: one for each event would cost more than to
        # write the event.
        tasks += [asyncio.create_task(watch.run()), asyncio.create_task(_write_all(request, response, source, watch))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    except ConnectionError:
        pass  # the client has left, which is how most streams end, or was left
    except Exception:
        # The status is already sent: the client gets the problem when it reconnects.
        log.exception("stream_failed", path=request.path)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await source.aclose()
    return response


async def _write_all(
    request: web.Request, response: web.StreamResponse, source: AsyncGenerator[Written], watch: "_Watch"
) -> None:
    async for event in source:
        await watch.permitted()
        watch.writing = True
        await write(request, response, event.encode())
        watch.writing = False


class _Watch:
    """Ends when its stream must end: when the process stops, or the permission does not hold. Meanwhile it pings."""

    def __init__(self, request: web.Request, response: web.StreamResponse, permission: Permission) -> None:
        self._request = request
        self._response = response
        self._permission = permission
        self._settled = asyncio.Event()
        """Set while no check of the permission is under way."""
        self._settled.set()
        self.writing = False
        """Whether events are being written: a ping in the middle of them would be taken for a part of one."""

    async def permitted(self) -> None:
        """Wait until the permission has been asked again, where it may have changed."""
        while self._permission.changed.is_set() or not self._settled.is_set():
            self._settled.clear()
            await self._settled.wait()

    async def run(self) -> None:
        """Watch. Raises ConnectionError when the client has left."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(self._request.app[STOPPING].wait())
        changed = asyncio.create_task(self._permission.changed.wait())
        # After a restart all clients come back at once. Their permissions, which cost reads of the store, are not asked
        # for at once again and again.
        ping_at = loop.time() + random.uniform(0, PING_SECONDS)  # noqa: S311
        try:
            while True:
                timeout = max(0.0, ping_at - loop.time())
                await asyncio.wait({stopping, changed}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    return
                self._settled.clear()
                # Without an answer nothing more is written.
                if not await self._permission.holds():
                    return
                self._settled.set()
                if changed.done():
                    changed = asyncio.create_task(self._permission.changed.wait())
                if loop.time() >= ping_at:
                    if not self.writing:
                        await write(self._request, self._response, b": ping\n\n")
                    ping_at = loop.time() + PING_SECONDS
        finally:
            stopping.cancel()
            changed.cancel()
            await asyncio.gather(stopping, changed, return_exceptions=True)
