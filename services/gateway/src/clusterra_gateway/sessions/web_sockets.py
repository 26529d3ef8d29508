"""Carries the messages of a WebSocket between a browser and a session's server."""

import asyncio

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from clusterra_gateway.sessions.forwarding import headers_of

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A notebook sends the output of a cell as one message."""
_HANDSHAKE = (
    *("sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol"),
    *("sec-websocket-accept", "content-length"),
)


def opens_web_socket(request: web.Request) -> bool:
    """Whether a request asks for a WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET"


async def carry_web_socket(
    request: web.Request, session: aiohttp.ClientSession, url: URL, token: str
) -> web.StreamResponse:
    """Opens the WebSocket at the session's server, then answers the browser, and carries messages until either ends.

    Raises aiohttp.ClientError, among them WSServerHandshakeError when the server refuses.
    """
    headers = headers_of(request, token)
    for name in _HANDSHAKE:
        headers.popall(name, None)
    offered = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if each.strip()]
    async with session.ws_connect(
        url, headers=headers, protocols=offered, autoping=False, max_msg_size=MAX_MESSAGE_BYTES
    ) as server:
        browser = web.WebSocketResponse(
            protocols=[server.protocol] if server.protocol else [],
            autoping=False,
            compress=False,
            max_msg_size=MAX_MESSAGE_BYTES,
        )
        await browser.prepare(request)
        directions = [asyncio.create_task(_carry(browser, server)), asyncio.create_task(_carry(server, browser))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            await browser.close(code=server.close_code or 1000)
            await server.close(code=browser.close_code or 1000)
        return browser


type _Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _carry(source: _Socket, target: _Socket) -> None:
    async for message in source:
        match message.type:
            case WSMsgType.TEXT:
                await target.send_str(message.data)
            case WSMsgType.BINARY:
                await target.send_bytes(message.data)
            case WSMsgType.PING:
                await target.ping(message.data)
            case WSMsgType.PONG:
                await target.pong(message.data)
            case _:
                return
