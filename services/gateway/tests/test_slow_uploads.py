"""Clients that send bodies slowly: what they hold is counted, and who sends more slowly than the least is left."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
import pytest
from aiohttp import web
from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, read_within
from clusterra_gateway.http.requests.long_transfers import LARGE_BYTES, LONG_TRANSFERS, MAX_WEIGHT, LongTransfers
from clusterra_gateway.http.routes.route import PublicRoute
from clusterra_gateway.http.server.server import serving
from clusterra_gateway.identity.access.limits import MAX_STREAMS, OpenStreams
from clusterra_lab.machine.process import until

HELD = MAX_STREAMS // MAX_WEIGHT
"""How many of the largest bodies a person may have on their way."""


class Bodies:
    """A route that reads a body, for the person in its query."""

    def __init__(self) -> None:
        self.streams = OpenStreams()

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Reads it."""
        request[LONG_TRANSFERS] = LongTransfers(partial(self.streams.opened, "acme", request.query["person"]))
        return web.Response(text=str(len(await read_within(request, MAX_BODY_BYTES))), headers=NO_STORE)


@pytest.fixture
async def bodies() -> Bodies:
    return Bodies()


@pytest.fixture
async def http(bodies: Bodies) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serving([PublicRoute("take", "POST", "/take", bodies.take, result="*/*")], "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(total=90)) as session,
    ):
        yield session


class Sending:
    """A body whose last byte is kept back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.last = asyncio.Event()

    async def _parts(self) -> AsyncIterator[bytes]:
        yield b"x" * (self.size - 1)
        await self.last.wait()
        yield b"x"

    async def status(self, http: aiohttp.ClientSession, person: str, *, sized: bool = True) -> int:
        headers = {"Content-Length": str(self.size)} if sized else {}
        async with http.post("/take", params={"person": person}, data=self._parts(), headers=headers) as answer:
            return answer.status


@pytest.mark.parametrize("sized", [True, False])
async def test_large_bodies_on_their_way_are_counted_for_who_sends_them(
    http: aiohttp.ClientSession, bodies: Bodies, sized: bool
) -> None:
    held = [Sending(MAX_BODY_BYTES) for _ in range(HELD)]
    tasks = [asyncio.create_task(each.status(http, "ada", sized=sized)) for each in held]
    await until(lambda: bodies.streams.open == HELD * MAX_WEIGHT, seconds=90, what="the bodies to be on their way")
    more, others, small = Sending(MAX_BODY_BYTES), Sending(MAX_BODY_BYTES), Sending(LARGE_BYTES - 1)
    others.last.set()
    small.last.set()

    statuses = [await more.status(http, "ada"), await others.status(http, "bob"), await small.status(http, "ada")]
    for each in held:
        each.last.set()

    assert statuses == [429, 200, 200]
    assert await asyncio.gather(*tasks) == [200] * HELD
    assert bodies.streams.open == 0


@pytest.mark.parametrize("size", [100, MAX_BODY_BYTES])
async def test_who_sends_more_slowly_than_the_least_throughput_is_left(
    http: aiohttp.ClientSession, bodies: Bodies, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.BEHIND_SECONDS", 0.3)
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.LEAST_BYTES_PER_SECOND", 64 * 1024 * 1024)

    assert await Sending(size).status(http, "ada") == 408
    assert bodies.streams.open == 0
