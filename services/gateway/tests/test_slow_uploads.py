"""Bodies on their way and held: they count for who sent them, and who sends more slowly than the least is left."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
import pytest
from aiohttp import web
from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, read_within
from clusterra_gateway.http.requests.long_transfers import LARGE_BYTES, MAX_WEIGHT, counting
from clusterra_gateway.http.routes.route import PublicRoute
from clusterra_gateway.http.server.server import serving
from clusterra_gateway.identity.access.limits import MAX_STREAMS, OpenStreams
from clusterra_lab.machine.process import until
from gateway_world import World

HELD = MAX_STREAMS // MAX_WEIGHT
"""How many of the largest bodies a person may have on their way."""


class Bodies:
    """A route that reads a body, for the person in its query, and answers when it may."""

    def __init__(self) -> None:
        self.streams = OpenStreams()
        self.answers = asyncio.Event()
        self.answers.set()
        self.read = 0

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Reads it."""
        with counting(request, partial(self.streams.opened, "acme", request.query["person"])):
            content = await read_within(request, MAX_BODY_BYTES)
            self.read += 1
            await self.answers.wait()
            return web.Response(text=str(len(content)), headers=NO_STORE)


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


@pytest.mark.parametrize(("size", "weight"), [(MAX_BODY_BYTES, MAX_WEIGHT), (LARGE_BYTES, 1), (1, 0)])
async def test_a_body_that_is_here_counts_as_large_as_it_is_until_its_handler_has_ended(
    http: aiohttp.ClientSession, bodies: Bodies, size: int, weight: int
) -> None:
    bodies.answers.clear()
    sent = Sending(size)
    sent.last.set()

    # Without a size, it counts as the largest one while it is on its way.
    task = asyncio.create_task(sent.status(http, "ada", sized=False))
    await until(lambda: bodies.read == 1, seconds=90, what="the body to be read")
    counted = bodies.streams.open
    bodies.answers.set()

    assert (counted, await task, bodies.streams.open) == (weight, 200, 0)


async def test_a_person_has_a_bounded_number_of_large_submits_that_wait_for_slurm(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.hold = asyncio.Event()
    script = "#!/bin/sh\n" + "#" * 400_000

    async def submitted(text: str) -> int:
        async with ada.post(
            "/v1/clusters/main/jobs/submit", json={"script": text, "job": {"environment": ["A=b"]}}
        ) as answer:
            return answer.status

    large = [asyncio.create_task(submitted(script)) for _ in range(MAX_STREAMS + 10)]
    await until(
        lambda: sum(each.done() for each in large) == 10, seconds=90, what="the large submits beyond to be refused"
    )
    small = asyncio.create_task(submitted("#!/bin/sh\n"))
    await until(lambda: len(world.acme.submits) == MAX_STREAMS + 1, seconds=90, what="the submits to reach the proxy")
    world.acme.hold.set()

    assert sorted(await asyncio.gather(*large, small)) == [201] * (MAX_STREAMS + 1) + [429] * 10


@pytest.mark.parametrize("size", [100, MAX_BODY_BYTES])
async def test_who_sends_more_slowly_than_the_least_throughput_is_left(
    http: aiohttp.ClientSession, bodies: Bodies, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.BEHIND_SECONDS", 0.3)
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.LEAST_BYTES_PER_SECOND", 64 * 1024 * 1024)

    assert await Sending(size).status(http, "ada") == 408
    assert bodies.streams.open == 0
