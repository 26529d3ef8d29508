"""Streams of bytes: writes at a minimum throughput, bodies made part by part as the client takes them, and CSV."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import structlog
from aiohttp import web
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.requests.long_transfers import (
    BEHIND_SECONDS,
    LARGE_BYTES,
    LEAST_BYTES_PER_SECOND,
    counted_bytes,
    counted_transfer,
    due_seconds,
    seconds_for,
)

log = structlog.get_logger()

SLICE_BYTES = 32 * 1024
"""Bytes that are handed to a connection at once. Its buffer takes two or three slices before the gateway waits."""
TABLE_WEIGHT = 2
"""A list or table that is read page by page counts as so many streams: it holds the text of a page."""


@dataclass(slots=True)
class _Pace:
    """How many seconds the client of a response is behind the minimum throughput."""

    behind: float = 0.0


_PACE = web.RequestKey("pace", _Pace)


class ClientStalled(ConnectionResetError):
    """The client reads more slowly than it must, so its connection was ended."""


async def write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Write a part of a response. Raises ConnectionError when the client has left or was left (ClientStalled)."""
    for begin in range(0, len(data), SLICE_BYTES):
        # A copy: with a view, the connection's buffer would hold all of `data` until the next one is sent.
        await _write(request, response, data[begin : begin + SLICE_BYTES])


async def _write(request: web.Request, response: web.StreamResponse, part: bytes) -> None:
    pace = request.get(_PACE)
    if pace is None:
        pace = request[_PACE] = _Pace()
    loop = asyncio.get_running_loop()
    due, began = due_seconds(len(part)), loop.time()
    try:
        async with asyncio.timeout(seconds_for(len(part)) - pace.behind):
            await response.write(part)
    except TimeoutError:
        _leave(request)
        raise ClientStalled from None
    pace.behind = max(0.0, pace.behind + loop.time() - began - due)


async def deliver(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Send an answer that is made already, if it is large: counted, and at the minimum throughput. Returns it.

    Raises TooManyRequests, but not for the answer to a change, which has been made. Small answers, and those that have
    been sent, are left as they are.
    """
    if not isinstance(response, web.Response) or response.prepared or request.method == "HEAD":
        return response
    size = len(response.body) if isinstance(response.body, bytes) else 0
    if size < LARGE_BYTES:
        return response
    with counted_bytes(request, size) if request.method == "GET" else nullcontext():
        try:
            async with asyncio.timeout(seconds_for(size)):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            _leave(request)
        except ConnectionError:
            pass  # the client has left
    return response


def _leave(request: web.Request) -> None:
    log.info("client_stalled", path=request.path, seconds=BEHIND_SECONDS, least=LEAST_BYTES_PER_SECOND)
    break_off(request)


def break_off(request: web.Request) -> None:
    """Abort the connection in the middle of a response, so that the client does not take a part for the whole.

    A close would wait for bytes that perhaps nobody reads.
    """
    if request.transport is not None:
        request.transport.abort()


class CutOff(Exception):
    """A body ends before it is whole. The text says why."""


async def read_on(
    request: web.Request, wanted: range, most: int, read: Callable[[int, int], Awaitable[bytes]]
) -> AsyncIterator[bytes]:
    """The bytes of a range, in parts for `send`. `read(offset, limit)` reads some of them, at least one.

    It is asked for a slice first, and for twice as much each time while the client takes all at once: for `most` bytes
    in the end. When the client is behind, the gateway lets go of what it has not sent yet, and begins with a slice
    again. So it holds little for each slow client.
    """
    offset, size = wanted.start, SLICE_BYTES
    while offset < wanted.stop:
        data = await read(offset, min(size, wanted.stop - offset))
        size = min(2 * size, most)
        while data:
            part, data = data[:SLICE_BYTES], data[SLICE_BYTES:]
            offset += len(part)
            if request.transport is not None and request.transport.get_write_buffer_size():
                data, size = b"", SLICE_BYTES
            yield part


def download(name: str, media_type: str) -> web.StreamResponse:
    """An answer that browsers save as a file of this name."""
    response = web.StreamResponse(headers={**NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'})
    response.content_type = media_type
    response.charset = "utf-8"
    return response


async def send(
    request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes], *, weight: int = 1
) -> web.StreamResponse:
    """Send a body of which each part is made when the client has taken the one before. `weight`: as how many streams
    it counts, by what its parts hold. Raises TooManyRequests.

    When `parts` raises RpcFailed or CutOff, the answer is broken off, so that it does not look complete.
    """
    with counted_transfer(request, weight):
        try:
            await response.prepare(request)
            async for part in parts:
                await write(request, response, part)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has left, or was left
        except (RpcFailed, CutOff) as error:
            reason = error.error.detail if isinstance(error, RpcFailed) else str(error)
            log.warning("answer_broken_off", path=request.path, reason=reason)
            break_off(request)
    return response


def csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """Write rows of cells as lines of a table (RFC 4180)."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(_cell, row) for row in rows)
    return text.getvalue().encode()


def _cell(value: str) -> str:
    """The cell, quoted where a spreadsheet would take it for a formula: job names are free text."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
