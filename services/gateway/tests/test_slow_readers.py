"""Clients that read slowly: long answers are counted, and readers below the minimum throughput are disconnected."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import ClassVar
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from clusterra_gateway.http.answers.responses import NO_STORE, json_bytes
from clusterra_gateway.http.answers.streams import SLICE_BYTES, read_on, send
from clusterra_gateway.http.requests.long_transfers import LARGE_BYTES, LONG_TRANSFERS, MAX_WEIGHT, LongTransfers
from clusterra_gateway.http.routes.route import PublicRoute
from clusterra_gateway.http.server.server import serving
from clusterra_gateway.identity.access import limits
from clusterra_gateway.identity.access.limits import OpenStreams
from clusterra_lab.machine.process import until
from prometheus_client import REGISTRY

BYTES = 32 * 1024 * 1024
"""More than the buffers of a connection on this machine take."""


FILE = random.Random(7).randbytes(BYTES)


class Page(bytes):
    """Bytes of which is known whether somebody holds them."""

    held: ClassVar[int] = 0

    def __del__(self) -> None:
        Page.held -= 1


class Answers:
    """Answers that are large or have no end."""

    def __init__(self) -> None:
        self.streams = OpenStreams()
        self.made = 0
        """How many pages."""
        self.limits: list[int] = []
        """How many bytes of the file were asked for each time."""

    async def whole(self, request: web.Request) -> web.StreamResponse:
        """A list that is made already."""
        self._counted(request)
        return json_bytes(b"0" * BYTES)

    async def small(self, request: web.Request) -> web.StreamResponse:
        """An answer that fits into the buffers."""
        self._counted(request)
        return json_bytes(b"0" * (LARGE_BYTES // 2))

    async def endless(self, request: web.Request) -> web.StreamResponse:
        """A table that is made as the client reads it."""
        self._counted(request)
        return await send(request, web.StreamResponse(headers=NO_STORE), self._parts())

    async def paged(self, request: web.Request) -> web.StreamResponse:
        """A table that is made of pages."""
        self._counted(request)
        response = web.StreamResponse(headers=NO_STORE)
        response.content_length = 2**40  # so that aiohttp copies nothing into chunks
        return await send(request, response, self._pages())

    async def file(self, request: web.Request) -> web.StreamResponse:
        """A file that somebody else has."""
        self._counted(request)
        body = read_on(request, range(len(FILE)), 8 * SLICE_BYTES, self._read)
        return await send(request, web.StreamResponse(headers=NO_STORE), body)

    async def _read(self, offset: int, limit: int) -> bytes:
        self.limits.append(limit)
        return FILE[offset : offset + limit]

    async def _pages(self) -> AsyncIterator[bytes]:
        while True:
            page = Page(LARGE_BYTES)
            Page.held += 1
            self.made += 1
            yield page

    def _counted(self, request: web.Request) -> None:
        request[LONG_TRANSFERS] = LongTransfers(
            partial(self.streams.opened, request.query["tenant"], request.query["person"]), ExitStack()
        )

    async def _parts(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * LARGE_BYTES


@pytest.fixture
async def answers() -> Answers:
    return Answers()


@pytest.fixture
async def http(answers: Answers) -> AsyncIterator[aiohttp.ClientSession]:
    paths = {
        "/whole": answers.whole,
        "/small": answers.small,
        "/endless": answers.endless,
        "/paged": answers.paged,
        "/file": answers.file,
    }
    routes = [PublicRoute(path[1:], "GET", path, each, result="*/*") for path, each in paths.items()]
    async with (
        serving(routes, "127.0.0.1", 0) as port,
        aiohttp.ClientSession(
            f"http://127.0.0.1:{port}",
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=90),
        ) as session,
    ):
        yield session


async def unread(
    http: aiohttp.ClientSession, path: str, person: str = "ada", tenant: str = "acme"
) -> aiohttp.ClientResponse:
    """An answer whose body is not read."""
    answer = await http.get(path, params={"person": person, "tenant": tenant})
    if answer.status == 200 and answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.pause_reading()
    return answer


async def status(http: aiohttp.ClientSession, path: str, person: str = "ada", tenant: str = "acme") -> int:
    answer = await unread(http, path, person, tenant)
    answer.close()
    return answer.status


@pytest.mark.parametrize("path", ["/whole", "/endless"])
async def test_a_long_answer_is_counted_for_its_reader_until_the_reader_has_left(
    http: aiohttp.ClientSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 2 * MAX_WEIGHT)
    weight = MAX_WEIGHT if path == "/whole" else 1
    held = [await unread(http, path) for _ in range(2 * MAX_WEIGHT // weight)]

    refused = await status(http, path)
    others = [await status(http, path, "bob"), await status(http, "/small")]
    for each in held:
        each.close()

    assert refused == 429
    assert others == [200, 200]

    async def admitted() -> bool:
        return await status(http, path) == 200

    await until(admitted, seconds=90, what="a place to be free again")
    failed = {"route": path[1:], "code": "500"}
    assert REGISTRY.get_sample_value("clusterra_http_requests_total", failed) is None, "a client left, nothing failed"


async def test_long_answers_are_counted_for_a_tenant(
    http: aiohttp.ClientSession, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers.streams, "_places", limits.Places(40))

    held = [await unread(http, "/endless", f"p{number}") for number in range(40)]
    others = await status(http, "/endless", "x", "rival")
    for each in held:
        each.close()

    assert [each.status for each in held] == [200] * 30 + [429] * 10
    assert others == 200


@pytest.mark.parametrize("path", ["/whole", "/endless"])
async def test_who_reads_more_slowly_than_the_minimum_throughput_is_disconnected(
    http: aiohttp.ClientSession, answers: Answers, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.BEHIND_SECONDS", 0.3)
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.LEAST_BYTES_PER_SECOND", 64 * 1024 * 1024)
    answer = await http.get(path, params={"person": "ada", "tenant": "acme"})

    async def left() -> bool:
        # Some bytes now and then: each write ends in time, and all together do not.
        if not answers.streams.open:
            return True
        await answer.content.readexactly(64)
        return False

    await until(left, seconds=90, what="the answer to end", every=0.01)
    answer.close()


async def test_who_reads_fast_enough_gets_the_whole(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.LEAST_BYTES_PER_SECOND", 1.0)

    async with http.get("/whole", params={"person": "ada", "tenant": "acme"}) as answer:
        assert len(await answer.read()) == BYTES


async def test_of_a_table_the_gateway_holds_the_page_alone_that_a_client_does_not_read(
    http: aiohttp.ClientSession, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.http.requests.long_transfers.BEHIND_SECONDS", 600.0)
    held = await unread(http, "/paged")

    made = [-1]

    def behind() -> bool:
        made.append(answers.made)
        return made[-1] == made[-2] > 0

    await until(behind, seconds=90, what="the client to be behind", every=0.5)

    assert Page.held == 1
    held.close()


async def test_who_falls_behind_makes_the_gateway_hold_less_of_a_file_and_gets_the_whole(
    http: aiohttp.ClientSession, answers: Answers
) -> None:
    answer = await unread(http, "/file")
    assert answer.connection is not None
    transport = answer.connection.transport
    assert isinstance(transport, asyncio.Transport)

    await until(lambda: answers.limits.count(SLICE_BYTES) > 1, seconds=90, what="the client to be behind")
    transport.resume_reading()

    assert await answer.read() == FILE


async def test_who_reads_at_once_gets_a_file_in_large_parts(answers: Answers) -> None:
    request = make_mocked_request("GET", "/file")
    assert isinstance(request.transport, Mock)
    request.transport.get_write_buffer_size.return_value = 0

    parts = [part async for part in read_on(request, range(5, len(FILE)), 8 * SLICE_BYTES, answers._read)]

    assert b"".join(parts) == FILE[5:]
    assert answers.limits[:3] == [SLICE_BYTES, 2 * SLICE_BYTES, 4 * SLICE_BYTES]
    assert set(answers.limits[3:-1]) == {8 * SLICE_BYTES}
