"""Answers that arrive in pieces, doubled or truncated. test_answers.py covers a real slurmrestd."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest
from clusterra_proxy.slurmrestd import client
from clusterra_proxy.slurmrestd.answers import States
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound, NotSent, Unreachable
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from clusterra_runtime.outbound import Outbound

BODY = b'{"jobs": [], "errors": [{"description": "Unable to query", "error_number": 2017}]}'
TWO_ANSWERS = (
    b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s"
    b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 24\r\n\r\nInvalid job id specified"
) % (len(BODY), BODY)


@asynccontextmanager
async def answering_server(*pieces: bytes) -> AsyncIterator[str]:
    """Run a server that answers each connection's first request with these pieces and closes it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


@pytest.mark.parametrize("size", [1, 7, 40, 150, 10_000])
async def test_only_the_first_answer_is_read_however_it_is_split(size: int) -> None:
    pieces = [TWO_ANSWERS[start : start + size] for start in range(0, len(TWO_ANSWERS), size)]
    async with answering_server(*pieces) as url, Slurmrestd(url) as slurmrestd:
        for _ in range(2):
            with pytest.raises(NotFound, match="Unable to query") as raised:
                await slurmrestd.read("slurm/v0.0.45/jobs/state/", "token", States, entity="job")
            assert raised.value.error.code == 2017


async def test_not_modified_needs_no_content_length() -> None:
    async with answering_server(b"HTTP/1.1 304 NOT MODIFIED\r\n\r\n") as url, Slurmrestd(url) as slurmrestd:
        assert await slurmrestd.read_list("slurm/v0.0.45/nodes/", "token", States, entity="node") is None


@pytest.mark.parametrize("piece", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
async def test_a_truncated_answer_is_unreachable(piece: bytes) -> None:
    async with answering_server(piece) as url, Slurmrestd(url) as slurmrestd:
        with pytest.raises(Unreachable):
            await slurmrestd.read("slurm/v0.0.45/jobs/state/", "token", States, entity="job")


async def test_an_error_never_shows_the_token() -> None:
    async with answering_server(b"nonsense\r\n\r\n") as url, Slurmrestd(url) as slurmrestd:
        with pytest.raises(Unreachable) as raised:
            await slurmrestd.read("slurm/v0.0.45/jobs/state/", "very-secret", States, entity="job")
    error: BaseException | None = raised.value
    while error is not None:
        assert "very-secret" not in f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_the_states_of_many_jobs_have_the_time_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmrestd takes 14 s for those of 60,000 jobs."""
    monkeypatch.setattr(client, "READ_SECONDS", 0.5)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"/jobs/state" in request.partition(b"\r\n")[0]:
            await asyncio.sleep(1.0)
        body = b'{"jobs": [{"job_id": "7", "state": ["RUNNING"]}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Slurmrestd(f"http://127.0.0.1:{port}") as slurmrestd:
        slurmctld = Slurmctld(slurmrestd)
        states = await slurmctld.states("token", many=True)

        assert [row.job_id for row in states.jobs] == ["7"]
        with pytest.raises(Unreachable):
            await slurmctld.states("token")


async def test_a_closed_address_is_not_connected_to() -> None:
    connected: list[object] = []
    server = await asyncio.start_server(lambda _, writer: connected.append(writer), "127.0.0.1", 0)
    closed = Outbound(closed=(ip_network("127.0.0.0/8"),))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Slurmrestd(url, outbound=closed) as slurmrestd:
        with pytest.raises(NotSent, match="metadata service"):
            await slurmrestd.read("slurm/v0.0.45/jobs/state/", "token", States, entity="job")

    assert connected == []
