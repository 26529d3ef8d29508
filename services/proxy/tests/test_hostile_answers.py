"""Answers that are larger than they say, endless, compressed, or that send the proxy to another host."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_proxy.slurmrestd import client as client_module
from clusterra_proxy.slurmrestd.answers import States
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound, Unavailable, Unreachable

PATH = "slurm/v0.0.44/jobs/state/"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MIB = 1024 * 1024


@asynccontextmanager
async def endless_server(
    head: bytes, piece: bytes = b"", most: int = 64 * MIB
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a server that answers with `head` and then `piece` again and again, and keeps what was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            writer.write(head)
            for _ in range(most // max(len(piece), 1) if piece else 0):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", asked


async def test_a_compressed_answer_is_neither_asked_for_nor_expanded() -> None:
    bomb = gzip.compress(b" " * 100 * MIB)
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with endless_server(head + bomb) as (url, asked), Slurmrestd(url) as slurmrestd:
        tracemalloc.start()
        with pytest.raises(Unavailable, match="compressed"):
            await slurmrestd.read(PATH, "token", States, entity="job")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 10 * MIB
    assert b"\r\nAccept-Encoding: identity\r\n" in asked[0]


async def test_an_answer_is_bounded_whatever_length_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "LIST_BYTES", 4 * MIB)
    head = OK + b"Content-Length: 1000000000000\r\n\r\n"
    async with endless_server(head, b" " * 65536) as (url, _), Slurmrestd(url) as slurmrestd:
        with pytest.raises(Unavailable, match="too large"):
            await slurmrestd.read(PATH, "token", States, entity="job")


async def test_a_failed_answer_has_a_bound_of_its_own() -> None:
    head = b"HTTP/1.1 500 ERROR\r\nContent-Length: 1000000000000\r\n\r\n"
    async with endless_server(head, b"x" * 65536) as (url, _), Slurmrestd(url) as slurmrestd:
        with pytest.raises(Unavailable, match="too large"):
            await slurmrestd.read(PATH, "token", States, entity="job")


@pytest.mark.parametrize("piece", [b"X-A: " + b"a" * 65536 + b"\r\n", b"a" * 65536])
async def test_a_head_is_bounded(piece: bytes) -> None:
    async with endless_server(b"HTTP/1.1 200 OK\r\n", piece) as (url, _), Slurmrestd(url) as slurmrestd:
        async with asyncio.timeout(20):
            with pytest.raises(Unreachable):
                await slurmrestd.read(PATH, "token", States, entity="job")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirection_is_not_followed(status: int) -> None:
    async with endless_server(b"HTTP/1.1 404 NOT FOUND\r\nContent-Length: 6\r\n\r\nsecret") as (other, asked):
        head = b"HTTP/1.1 %d Moved\r\nLocation: %s/x\r\nContent-Length: 0\r\n\r\n" % (status, other.encode())
        async with endless_server(head) as (url, _), Slurmrestd(url) as slurmrestd:
            for call in (
                slurmrestd.write("POST", "slurm/v0.0.44/job/submit", "token", States, entity="job", body={"a": 1}),
                slurmrestd.read(PATH, "token", States, entity="job"),
            ):
                with pytest.raises(Unreachable, match="redirects") as raised:
                    await call
                assert "correct the address" in raised.value.error.hint
        assert asked == []


async def test_the_text_of_another_service_is_not_shown() -> None:
    head = b"HTTP/1.1 404 NOT FOUND\r\nContent-Length: 6\r\n\r\nsecret"
    async with endless_server(head) as (url, _), Slurmrestd(url) as slurmrestd:
        with pytest.raises(NotFound, match="slurmrestd answered 404") as raised:
            await slurmrestd.read(PATH, "token", States, entity="job")
    assert "secret" not in str(raised.value)
