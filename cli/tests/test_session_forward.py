"""A session at a port of this machine: for the browser that has opened the printed address, and for nobody else."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import BytesIO

import aiohttp
import pytest
from aiohttp import web
from clusterra_cli.session_forward.admission import Admission, Forward, Redirect, Rejection
from clusterra_cli.session_forward.headers import Upstream, to_browser, to_session
from clusterra_cli.session_forward.listener import IDLE_SECONDS, listening
from clusterra_cli.session_forward.places import MAX_WAITING
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

PAGE = "/sessions/main/42"
NAMES = st.sampled_from([b"host", b"cookie", b"origin", b"sec-fetch-site", b"accept"])
UPSTREAM = Upstream("https://sessions.example", PAGE, "clusterra_page_main_42=secret")


def entered(admission: Admission) -> str:
    """The cookie of a browser that has opened the address."""
    led = admission.decide(b"GET", admission.address.removeprefix(admission.origin).encode(), [own_host(admission)])
    assert isinstance(led, Redirect), led
    assert led.path == f"{PAGE}/"
    assert led.cookie is not None
    assert led.cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    return led.cookie.partition(";")[0]


def own_host(admission: Admission) -> tuple[bytes, bytes]:
    return (b"host", admission.host.encode())


def test_the_code_works_once() -> None:
    admission = Admission(PAGE, 8888)
    address = admission.address

    cookie = entered(admission)

    again = admission.decide(b"GET", address.removeprefix(admission.origin).encode(), [own_host(admission)])
    assert isinstance(again, Rejection)
    assert admission.address != address
    allowed = [own_host(admission), (b"cookie", f"a=b; {cookie}".encode())]
    assert admission.decide(b"GET", f"{PAGE}/lab?x=1".encode(), allowed) == Forward()
    assert admission.decide(b"GET", b"/", allowed) == Redirect(f"{PAGE}/")


@given(headers=st.lists(st.tuples(NAMES, st.binary(max_size=60)), max_size=6), target=st.binary(max_size=60))
def test_nobody_guesses_their_way_in(headers: list[tuple[bytes, bytes]], target: bytes) -> None:
    admission = Admission(PAGE, 8888)
    entered(admission)

    for host in ([], [own_host(admission)]):
        assert isinstance(admission.decide(b"GET", target, [*host, *headers]), Rejection)


@pytest.mark.parametrize(
    "header",
    [
        (b"origin", b"http://127.0.0.1:8888"),
        (b"origin", b"null"),
        (b"origin", b"https://evil.example"),
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-site", b"same-site"),
        (b"host", b"evil.example"),
    ],
)
def test_a_browser_is_refused_where_another_page_asks(header: tuple[bytes, bytes]) -> None:
    admission = Admission(PAGE, 8888)
    allowed = [own_host(admission), (b"cookie", entered(admission).encode())]

    assert isinstance(admission.decide(b"POST", f"{PAGE}/api".encode(), [*allowed, header]), Rejection)


@pytest.mark.parametrize("target", [b"/sessions/enter", b"/sessions/main/421/", b"http://x/sessions/main/42/", b"*"])
def test_nothing_else_of_the_origin_is_reached(target: bytes) -> None:
    admission = Admission(PAGE, 8888)
    allowed = [own_host(admission), (b"cookie", entered(admission).encode())]

    assert isinstance(admission.decide(b"GET", target, allowed), Rejection)


def test_a_request_has_the_cookie_of_the_page_and_no_other_of_ours() -> None:
    headers = [
        (b"host", b"x.localhost:1"),
        (b"cookie", b"clusterra_forward=a; _xsrf=kept; clusterra_page_main_42=b"),
        (b"origin", b"http://x.localhost:1"),
        (b"referer", b"http://x.localhost:1/sessions/main/42/lab"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
    ]

    sent = dict(to_session(headers, "http://x.localhost:1", UPSTREAM, upgrade=False))

    assert sent == {
        b"host": b"sessions.example",
        b"cookie": b"_xsrf=kept; clusterra_page_main_42=secret",
        b"origin": b"https://sessions.example",
        b"referer": b"https://sessions.example/sessions/main/42/lab",
    }


def test_an_answer_sets_only_cookies_of_the_session() -> None:
    answer = [
        (b"set-cookie", b"_xsrf=1; Domain=sessions.example; Path=/"),
        (b"set-cookie", b"clusterra_page_main_42=secret"),
        (b"set-cookie", b"clusterra_forward=x"),
        (b"location", b"https://sessions.example/sessions/main/42/lab"),
        (b"strict-transport-security", b"max-age=1"),
    ]

    got = to_browser(answer, "http://x.localhost:1", UPSTREAM)

    assert got == [
        (b"set-cookie", b"_xsrf=1; Path=/"),
        (b"location", b"http://x.localhost:1/sessions/main/42/lab"),
        (b"referrer-policy", b"same-origin"),
    ]


@dataclass(frozen=True)
class Forwarded:
    """A listener before a session's server, and a browser."""

    admission: Admission
    browser: aiohttp.ClientSession
    opened: list[str]

    @property
    def base(self) -> str:
        """The listener: its name is resolved here, because not every machine resolves names below localhost."""
        return f"http://127.0.0.1:{self.admission.port}"

    @property
    def headers(self) -> dict[str, str]:
        """What a browser sends for the name."""
        return {"Host": self.admission.host}


async def _echo(request: web.Request) -> web.StreamResponse:
    assert request.cookies["clusterra_page_main_42"] == "secret"
    if request.headers.get("Upgrade") == "websocket":
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket
    answer = web.StreamResponse(headers={"X-Path": request.rel_url.raw_path_qs})
    await answer.prepare(request)
    async for chunk in request.content.iter_any():
        await answer.write(chunk)
    await answer.write_eof()
    return answer


@asynccontextmanager
async def _forwarded(answer: Callable[[web.Request], object]) -> AsyncIterator[Forwarded]:
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", answer)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream = Upstream(f"http://127.0.0.1:{runner.addresses[0][1]}", PAGE, UPSTREAM.cookie)
    opened: list[str] = []
    try:
        async with (
            listening(0, lambda: upstream, lambda admission: opened.append(admission.address)) as admission,
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser,
        ):
            yield Forwarded(admission, browser, opened)
    finally:
        await runner.cleanup()


@pytest.fixture
async def forwarded() -> AsyncIterator[Forwarded]:
    async with asyncio.timeout(90), _forwarded(_echo) as running:
        yield running


async def signed_in(forwarded: Forwarded) -> dict[str, str]:
    """The headers of the browser that has opened the address."""
    path = forwarded.admission.address.removeprefix(forwarded.admission.origin)
    url = f"{forwarded.base}{path}"
    async with forwarded.browser.get(url, headers=forwarded.headers, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, f"{PAGE}/")
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert forwarded.opened == [forwarded.admission.address]
    return {**forwarded.headers, "Cookie": cookie, "Origin": forwarded.admission.origin}


async def test_bodies_of_any_size_go_both_ways(forwarded: Forwarded) -> None:
    headers = await signed_in(forwarded)
    body = bytes(range(256)) * 16_384

    for data in (body, b"", b"x"):
        url = URL(f"{forwarded.base}{PAGE}/a%20b?c=%2F", encoded=True)
        async with forwarded.browser.post(url, headers=headers, data=BytesIO(data)) as answer:
            assert answer.status == 200
            assert answer.headers["X-Path"] == f"{PAGE}/a%20b?c=%2F"
            assert await answer.read() == data


async def test_a_web_socket_is_carried(forwarded: Forwarded) -> None:
    headers = await signed_in(forwarded)

    async with forwarded.browser.ws_connect(f"{forwarded.base}{PAGE}/ws", headers=headers) as socket:
        for size in (1, 200_000):
            await socket.send_bytes(b"a" * size)
            assert await socket.receive_bytes() == b"a" * size


async def test_without_the_cookie_nothing_is_served(forwarded: Forwarded) -> None:
    for headers in ({}, forwarded.headers, {**forwarded.headers, "Cookie": "clusterra_forward=x"}):
        async with forwarded.browser.get(f"{forwarded.base}{PAGE}/", headers=headers) as answer:
            assert answer.status in (403, 421)
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await forwarded.browser.ws_connect(f"{forwarded.base}{PAGE}/ws", headers=forwarded.headers)


async def test_it_listens_on_both_loopback_addresses_and_on_no_other(forwarded: Forwarded) -> None:
    path = f"{PAGE}/"
    for address in ("127.0.0.1", "[::1]"):
        url = f"http://{address}:{forwarded.admission.port}{path}"
        async with forwarded.browser.get(url, headers=forwarded.headers) as answer:
            assert answer.status == 403
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.2", forwarded.admission.port)


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")])
async def test_a_port_that_somebody_has_at_one_address_is_not_used(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as taken:
        taken.bind((address, 0))
        taken.listen()
        with pytest.raises(OSError):
            async with listening(taken.getsockname()[1], lambda: UPSTREAM, lambda _: None):
                pass


async def test_idle_connections_of_others_keep_nobody_out(forwarded: Forwarded) -> None:
    others = [await asyncio.open_connection("127.0.0.1", forwarded.admission.port) for _ in range(MAX_WAITING + 5)]
    headers = await signed_in(forwarded)
    async with forwarded.browser.get(f"{forwarded.base}{PAGE}/", headers=headers) as answer:
        assert answer.status == 200

    first, last = others[0][0], others[-1][0]
    began = asyncio.get_running_loop().time()
    with suppress(ConnectionError):
        assert await first.read() == b""
    with suppress(ConnectionError):
        assert await last.read() == b""
    assert asyncio.get_running_loop().time() - began < IDLE_SECONDS / 2
    for _, writer in others:
        writer.close()


async def test_a_session_that_breaks_off_breaks_the_answer_off() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "100"})
        await answer.prepare(request)
        await answer.write(b"part")
        assert request.transport is not None
        request.transport.close()
        return answer

    async with asyncio.timeout(90), _forwarded(broken) as forwarded:
        headers = await signed_in(forwarded)
        async with forwarded.browser.get(f"{forwarded.base}{PAGE}/", headers=headers) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
