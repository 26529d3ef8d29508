"""WebSockets of sessions as the gateway carries them: whole, in order, and without holding them in memory."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from aiohttp.http import WS_KEY
from aiohttp.test_utils import TestClient, TestServer
from clusterra_gateway.sessions.entrance import ServerToken
from clusterra_gateway.sessions.pages import refusal
from clusterra_gateway.sessions.web_sockets import carry_web_socket
from yarl import URL

type Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]
type Browser = TestClient[web.Request, web.Application]

MIB = 1024 * 1024


KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""Those of RFC 6455."""
ASK = (
    "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\n\r\n"
).encode()
SWITCHED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "


@asynccontextmanager
async def browser_of(serve: Serve, carried: list[asyncio.Task[Any]] | None = None) -> AsyncIterator[Browser]:
    """A browser before a gateway before a session's server. `carried` gets the task of each WebSocket."""
    app = web.Application()
    app.router.add_get("/", serve)
    async with TestServer(app) as server, gateway_of(server.make_url("/"), carried) as browser:
        yield browser


@asynccontextmanager
async def raw_server(answer: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[URL]:
    """A session's server that answers as it likes; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(await reader.readuntil(b"\r\n\r\n"), writer)
        await reader.read()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


@asynccontextmanager
async def gateway_of(url: URL, carried: list[asyncio.Task[Any]] | None = None) -> AsyncIterator[Browser]:
    """A browser before a gateway before the session's server at this address."""
    async with aiohttp.ClientSession() as session:

        async def handler(request: web.Request) -> web.StreamResponse:
            carrying = asyncio.create_task(carry_web_socket(request, session, url, ServerToken("0" * 64)))
            if carried is not None:
                carried.append(carrying)
            try:
                await asyncio.wait([carrying])
                return web.Response() if carrying.cancelled() else carrying.result()
            except aiohttp.WSServerHandshakeError as error:
                return web.Response(status=refusal(error.status))

        gateway = web.Application()
        gateway.router.add_get("/", handler)
        async with TestClient(TestServer(gateway)) as client:
            yield client


async def echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=("v1.kernel",), max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        if message.data == "end":
            await socket.close(code=4001, message=b"ended")
        elif message.type == WSMsgType.TEXT:
            await socket.send_str(message.data)
        else:
            await socket.send_bytes(message.data)
    return socket


async def test_messages_of_any_size_go_both_ways() -> None:
    large = bytes(range(256)) * (16 * 4096)

    async with (
        browser_of(echo) as browser,
        browser.ws_connect("/", protocols=("v0", "v1.kernel"), compress=15, max_msg_size=0) as socket,
        asyncio.timeout(90),
    ):
        for number in range(20):
            await socket.send_str(f"message {number}")
        await socket.send_bytes(large)

        got = [await socket.receive() for _ in range(21)]

        assert socket.protocol == "v1.kernel"
        assert [each.data for each in got[:20]] == [f"message {number}" for number in range(20)]
        assert got[20].data == large


async def test_the_session_ends_it_by_its_own_code() -> None:
    async with browser_of(echo) as browser, browser.ws_connect("/") as socket, asyncio.timeout(90):
        await socket.send_str("end")

        last = await socket.receive()

        assert (last.type, last.data, last.extra) == (WSMsgType.CLOSE, 4001, "ended")


async def test_a_browser_that_leaves_ends_it_at_the_session() -> None:
    left = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        answer = await echo(request)
        left.set()
        return answer

    async with browser_of(serve) as browser:
        async with browser.ws_connect("/") as socket:
            await socket.send_str("x")
            await socket.receive()

        async with asyncio.timeout(90):
            await left.wait()


async def test_one_that_may_go_on_no_more_is_cut() -> None:
    carried: list[asyncio.Task[Any]] = []

    async with browser_of(echo, carried) as browser, browser.ws_connect("/") as socket, asyncio.timeout(90):
        await socket.send_str("x")
        await socket.receive()

        carried[0].cancel()

        assert (await socket.receive()).type in (WSMsgType.CLOSED, WSMsgType.ERROR)


async def test_what_a_browser_does_not_read_stays_at_the_session() -> None:
    written = 0
    at_rest = asyncio.Event()

    async def flood(request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + WS_KEY, usedforsecurity=False).digest()).decode()
        writer.write(f"{SWITCHED}{accept}\r\n\r\n".encode() + b"\x82\x7f" + (64 * MIB).to_bytes(8, "big"))
        while written < 64:
            writer.write(bytes(MIB))
            try:
                async with asyncio.timeout(2):
                    await writer.drain()
            except TimeoutError:
                break
            written += 1
        at_rest.set()

    async with raw_server(flood) as url, gateway_of(url) as browser, asyncio.timeout(90):
        reader, writer = await asyncio.open_connection(browser.host, browser.port)
        writer.write(ASK)
        await reader.readuntil(b"\r\n\r\n")
        await at_rest.wait()
        writer.close()

    # What the operating system holds of two connections is much less.
    assert written < 48


@pytest.mark.parametrize(
    "head",
    [
        f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nSec-WebSocket-Accept: {ACCEPT}",
        f"{SWITCHED}wrong",
        f"{SWITCHED}{ACCEPT}\r\nSec-WebSocket-Protocol: unasked",
        f"{SWITCHED}{ACCEPT}\r\nSec-WebSocket-Extensions: permessage-deflate",
        "HTTP/1.1 200 OK\r\nContent-Length: 0",
    ],
)
async def test_a_server_that_does_not_accept_gets_no_tunnel(head: str) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{head}\r\n\r\n".encode())

    async with raw_server(answer) as url, gateway_of(url) as browser, asyncio.timeout(90):
        reader, writer = await asyncio.open_connection(browser.host, browser.port)
        writer.write(ASK)
        got = await reader.readline()
        writer.close()

    assert got.split()[1] == b"502"
