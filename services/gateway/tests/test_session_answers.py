"""What a hostile server of a session answers, as the gateway passes it on to the browser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from clusterra_gateway.sessions.entrance import ServerToken
from clusterra_gateway.sessions.forwarding import forward
from clusterra_gateway.sessions.pages import refusal
from yarl import URL


@asynccontextmanager
async def browser_of(answer: bytes) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A browser before a session whose server answers each request by these bytes."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(hostile, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    async with server, aiohttp.ClientSession() as session:

        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                return await forward(request, session, url, ServerToken("0" * 64))
            except aiohttp.ClientError:
                return web.Response(status=HTTPStatus.BAD_GATEWAY)

        app = web.Application()
        app.router.add_get("/", handler)
        async with TestClient(TestServer(app)) as client:
            yield client


@pytest.mark.parametrize("status", ["101 Switching Protocols", "799 Nonsense"])
async def test_an_answer_that_is_no_final_one_of_http_is_not_passed_on(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n"

    async with browser_of(head.encode()) as browser, asyncio.timeout(90), browser.get("/") as answer:
        got = answer.status

    assert got == HTTPStatus.BAD_GATEWAY


@pytest.mark.parametrize(("told", "shown"), [(101, 502), (200, 502), (302, 502), (799, 502), (403, 403), (404, 404)])
def test_a_refused_web_socket_is_an_error_for_the_browser(told: int, shown: int) -> None:
    assert refusal(told) == shown
