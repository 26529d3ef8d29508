"""Streams of bytes: parts written within a deadline, bodies made part by part as the client takes them, and CSV."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable

import structlog
from aiohttp import web
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.http.answers.responses import NO_STORE

log = structlog.get_logger()

WRITE_SECONDS = 20.0
"""How long one write may take. A client that reads nothing fills the buffers, and would then hold them forever."""


class ClientStalled(ConnectionResetError):
    """The client has not read for WRITE_SECONDS, so its connection was ended."""


async def write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Write a part of a response. Raises ConnectionResetError when the client has left or was left (ClientStalled)."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(data)
    except TimeoutError:
        log.info("client_stalled", path=request.path, seconds=WRITE_SECONDS)
        break_off(request)
        raise ClientStalled from None


def break_off(request: web.Request) -> None:
    """Abort the connection in the middle of a response, so that the client does not take a part for the whole.

    A close would wait for bytes that perhaps nobody reads.
    """
    if request.transport is not None:
        request.transport.abort()


class CutOff(Exception):
    """A body ends before it is whole. The text says why."""


def download(name: str, media_type: str) -> web.StreamResponse:
    """An answer that browsers save as a file of this name."""
    response = web.StreamResponse(headers={**NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'})
    response.content_type = media_type
    response.charset = "utf-8"
    return response


async def send(request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send a body of which each part is made when the client has taken the one before.

    When `parts` raises RpcFailed or CutOff, the answer is broken off, so that it does not look complete.
    """
    try:
        await response.prepare(request)
        async for part in parts:
            await write(request, response, part)
        await response.write_eof()
    except ConnectionResetError:
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
