"""Carries a WebSocket between a browser and a session's server: its bytes, as they come.

The gateway puts no message together. A notebook sends the output of a cell as one message of any size, and for a slow
browser the gateway would have to hold all of it. So the gateway reads the handshake only, and holds a few blocks.
"""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import WS_KEY, StreamWriter
from multidict import CIMultiDict
from yarl import URL

from clusterra_gateway.sessions.entrance import ServerToken
from clusterra_gateway.sessions.forwarding import headers_of

HELD_BYTES = 64 * 1024
"""Reading pauses while more than twice this many bytes wait to be written on."""
_SWITCHING = 101


def opens_web_socket(request: web.Request) -> bool:
    """Whether a request asks for a WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET"


async def carry_web_socket(
    request: web.Request, session: aiohttp.ClientSession, url: URL, token: ServerToken
) -> web.StreamResponse:
    """Opens the WebSocket at the session's server, then answers the browser, and carries bytes until either ends.

    Raises aiohttp.ClientError, among them WSServerHandshakeError when the server refuses.
    """
    headers = headers_of(request, token)
    # No compression: its state would take memory of the session's server for each socket. And no body.
    for name in ("Sec-WebSocket-Extensions", "Content-Length"):
        headers.popall(name, None)
    headers.update({"Connection": "Upgrade", "Upgrade": "websocket"})
    async with session.get(url, headers=headers, allow_redirects=False) as answer:
        switched = _switched(request, answer)
        connection = answer.connection
        assert connection is not None  # noqa: S101 - it stays open behind a 101
        assert connection.protocol is not None  # noqa: S101 - likewise
        browser = web.StreamResponse(status=_SWITCHING, headers=switched)
        browser.force_close()
        await browser.prepare(request)
        sent, told = _Arriving(request.protocol), _Arriving(connection.protocol)
        # Of a parser of messages, which it names, aiohttp uses no more than these have.
        request.protocol.set_parser(sent)  # type: ignore[arg-type]
        connection.protocol.set_parser(told, told.bytes)
        to_server = StreamWriter(connection.protocol, asyncio.get_running_loop())
        directions = [
            asyncio.create_task(_carry(sent.bytes, to_server.write)),
            asyncio.create_task(_carry(told.bytes, browser.write)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # It may not have what it has not read yet.
            if request.transport is not None:
                request.transport.abort()
            raise
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            connection.close()
        return browser


def _switched(request: web.Request, answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    """The headers of our own answer to the browser. Raises WSServerHandshakeError unless the server has accepted."""
    key = request.headers.get("Sec-WebSocket-Key", "")
    accepted = base64.b64encode(hashlib.sha1(key.encode() + WS_KEY, usedforsecurity=False).digest()).decode()
    offered = {each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")}
    protocol = answer.headers.get("Sec-WebSocket-Protocol")
    if (
        answer.status != _SWITCHING
        or answer.headers.get("Upgrade", "").lower() != "websocket"
        or answer.headers.get("Sec-WebSocket-Accept") != accepted
        or (protocol is not None and protocol not in offered)
        or "Sec-WebSocket-Extensions" in answer.headers
    ):
        raise aiohttp.WSServerHandshakeError(
            answer.request_info, answer.history, status=answer.status, message="the session opens no WebSocket"
        )
    headers = CIMultiDict({"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Accept": accepted})
    if protocol is not None:
        headers["Sec-WebSocket-Protocol"] = protocol
    return headers


class _Arriving:
    """What takes the bytes of a connection of aiohttp, in place of the parser of messages that aiohttp has."""

    def __init__(self, protocol: BaseProtocol) -> None:
        self.bytes = aiohttp.StreamReader(protocol, HELD_BYTES, loop=asyncio.get_running_loop())

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Takes bytes. The sender is held back while too many are held."""
        self.bytes.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        """Takes the end."""
        self.bytes.feed_eof()


async def _carry(source: aiohttp.StreamReader, write: Callable[[bytes], Awaitable[Any]]) -> None:
    while data := await source.readany():
        await write(data)
