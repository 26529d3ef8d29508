"""Writes parts of long responses, each within a deadline: a client that reads nothing is not waited for."""

import asyncio

import structlog
from aiohttp import web

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
    """End the connection in the middle of a response: only so does the client not take a part for the whole.

    A close would wait for bytes that perhaps nobody reads.
    """
    if request.transport is not None:
        request.transport.abort()
