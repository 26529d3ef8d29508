"""Byte streams through a real NATS server, to a real TCP server on the edge's side."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_streams import (
    CHUNK_BYTES,
    ReadStream,
    SessionJob,
    StreamChunk,
    StreamWritten,
    WriteStream,
)
from clusterra_contracts.rpc.reply import RpcError
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.byte_stream.acceptor import Acceptor, Limits
from clusterra_runtime.nats.byte_stream.numbering import MAX_CREDITS
from clusterra_runtime.nats.byte_stream.opener import ByteStream, StreamBroken
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.settings import ServiceSettings

from .conftest import connected

SESSION = SessionJob(job_id="42", uid=20001, worker="general-small-x7k2p")

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Edge:
    """An acceptor that connects to one TCP server."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self.closed = asyncio.Event()
        """The server's side of a connection has ended."""


@asynccontextmanager
async def edge(client: Client, ref: ClusterRef, serve: Serve, limits: Limits | None = None) -> AsyncIterator[Edge]:
    async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        running.closed.set()

    server = await asyncio.start_server(serve_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def connect(_session: SessionJob) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    running = Edge(Acceptor(connect, limits or Limits()))
    end = await running.acceptor.serve(client, ref)
    sweep = asyncio.create_task(running.acceptor.run())
    try:
        yield running
    finally:
        sweep.cancel()
        await end()
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def wait_for_the_end(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def whole(stream: ByteStream) -> bytes:
    parts = []
    while data := await stream.read():
        parts.append(data)
    return b"".join(parts)


@pytest.fixture
async def second(settings: ServiceSettings) -> AsyncIterator[Client]:
    """The connection of the edge: another one than the gateway's."""
    async with connected(settings, "edge") as connection:
        yield connection


async def test_what_is_written_comes_back_whole_and_in_order(client: Client, second: Client, ref: ClusterRef) -> None:
    content = os.urandom(3 * 1024 * 1024 + 17)

    async with edge(second, ref, echo), await ByteStream.open(client, ref, SESSION) as stream:

        async def write() -> None:
            await stream.write(content)
            await stream.write_eof()

        _, read = await asyncio.gather(write(), whole(stream))

    assert read == content


async def test_each_direction_ends_on_its_own(client: Client, second: Client, ref: ClusterRef) -> None:
    async def answer_after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read(-1)
        writer.write(b"you said " + asked)
        await writer.drain()

    async with edge(second, ref, answer_after_the_end), await ByteStream.open(client, ref, SESSION) as stream:
        await stream.write(b"hello")
        await stream.write_eof()

        assert await whole(stream) == b"you said hello"


async def test_a_slow_reader_holds_the_sender_up(client: Client, second: Client, ref: ClusterRef) -> None:
    sent = 0

    async def send_much(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(512):
            writer.write(bytes(CHUNK_BYTES))
            await writer.drain()
            sent += CHUNK_BYTES

    async with edge(second, ref, send_much), await ByteStream.open(client, ref, SESSION) as stream:
        for _ in range(20):
            await stream.read()
        held_up_at = -1

        async def stands_still() -> bool:
            nonlocal held_up_at
            before, held_up_at = held_up_at, sent
            return before == sent

        await until(stands_still, seconds=90, what="a sender that waits", every=0.3)
        rest = await whole(stream)

    assert held_up_at < 12 * 1024 * 1024, "the buffers of the kernel and a window, not all 16 MiB"
    assert len(rest) > 512 * CHUNK_BYTES - 20 * CHUNK_BYTES - 1


async def test_a_session_that_reads_nothing_holds_us_up(client: Client, second: Client, ref: ClusterRef) -> None:
    go_on = asyncio.Event()

    async def read_later(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        while await reader.read(65536):
            pass

    async with edge(second, ref, read_later), await ByteStream.open(client, ref, SESSION) as stream:
        writing = asyncio.create_task(stream.write(bytes(32 * 1024 * 1024)))
        done, _ = await asyncio.wait([writing], timeout=1.5)
        go_on.set()
        await writing
        await stream.write_eof()

    assert not done


async def test_a_cancelled_stream_ends_the_connection(client: Client, second: Client, ref: ClusterRef) -> None:
    async with edge(second, ref, wait_for_the_end) as running:
        stream = await ByteStream.open(client, ref, SESSION)
        await stream.write(b"hello")

        await stream.cancel()

        await until(running.closed.is_set, seconds=30, what="the end of the connection")
        with pytest.raises(StreamBroken):
            await stream.read()


async def test_a_refusal_names_its_reason(client: Client, second: Client, ref: ClusterRef) -> None:
    async def refuse(_session: SessionJob) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise RpcFailed(RpcError(kind="not_found", detail="no such session runs here"))

    end = await Acceptor(refuse).serve(second, ref)

    with pytest.raises(RpcFailed, match="no such session runs here"):
        await ByteStream.open(client, ref, SESSION)

    await end()


@pytest.mark.parametrize("limits", [Limits(streams=2), Limits(streams_of_user=2)])
async def test_the_number_of_streams_is_bounded(
    client: Client, second: Client, ref: ClusterRef, limits: Limits
) -> None:
    async with edge(second, ref, wait_for_the_end, limits):
        opened = [await ByteStream.open(client, ref, SESSION) for _ in range(2)]

        with pytest.raises(RpcFailed, match="open"):
            await ByteStream.open(client, ref, SESSION)

        await opened[0].cancel()
        opened[0] = await ByteStream.open(client, ref, SESSION)
        for each in opened:
            await each.cancel()


async def test_an_idle_stream_ends(client: Client, second: Client, ref: ClusterRef) -> None:
    limits = Limits(idle_seconds=0.3, look_seconds=0.1)

    async with edge(second, ref, wait_for_the_end, limits) as running:
        stream = await ByteStream.open(client, ref, SESSION)

        await until(running.closed.is_set, seconds=30, what="the end of the idle connection")

        with pytest.raises(StreamBroken):
            await whole(stream)
        await stream.cancel()
        assert running.acceptor.use_of("42")[0] == 0


async def test_a_stream_whose_opener_has_died_ends(settings: ServiceSettings, second: Client, ref: ClusterRef) -> None:
    limits = Limits(silent_seconds=0.3, look_seconds=0.1)

    async with edge(second, ref, wait_for_the_end, limits) as running, connected(settings, "dying") as dying:
        stream = await ByteStream.open(dying, ref, SESSION)
        stream._alive.cancel()  # a process that was killed sends nothing more

        await until(running.closed.is_set, seconds=30, what="the end of the stream left behind")


async def test_a_lost_chunk_ends_the_stream(client: Client, second: Client, ref: ClusterRef) -> None:
    async with edge(second, ref, wait_for_the_end), await ByteStream.open(client, ref, SESSION) as stream:
        skipped = WriteStream.model_construct(stream_id=stream._id, number=2, data=b"x", end=False)

        with pytest.raises(RpcFailed, match="chunk 2 came after chunk 0"):
            await rpc.call(client, subjects.edge(ref, "stream-write"), skipped, StreamWritten)

        with pytest.raises(StreamBroken):
            await whole(stream)


async def test_a_lost_answer_ends_the_stream(client: Client, second: Client, ref: ClusterRef) -> None:
    async def send_twice(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        await asyncio.wait_for(asyncio.shield(gone), 90)
        writer.write(b"second")
        await writer.drain()

    gone = asyncio.get_running_loop().create_future()
    async with edge(second, ref, send_twice), await ByteStream.open(client, ref, SESSION) as stream:
        asked = ReadStream(stream_id=stream._id)
        await rpc.call(client, subjects.edge(ref, "stream-read"), asked, StreamChunk)  # an answer that nobody gets
        gone.set_result(None)

        with pytest.raises(StreamBroken, match="chunk 2 came after chunk 0"):
            await whole(stream)


async def test_a_cut_connection_ends_the_stream_on_both_sides(server: NatsServer, ref: ClusterRef) -> None:
    limits = Limits(silent_seconds=1.0, look_seconds=0.1)
    settings = server.settings()

    async with (
        connected(settings, "gateway") as opener,
        connected(settings, "edge") as acceptor,
        edge(acceptor, ref, wait_for_the_end, limits) as running,
    ):
        stream = await ByteStream.open(opener, ref, SESSION)
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
        await server.kill()

        with pytest.raises(StreamBroken):
            await asyncio.wait_for(reading, 30)

        await until(running.closed.is_set, seconds=30, what="the end of the connection at the edge")
        await server.restart()
        await acceptor.wait_connected(10)
        await acceptor.flush()
        async with await ByteStream.open(opener, ref, SESSION) as again:
            await again.write(b"hello")


def test_a_window_is_a_quarter_of_a_mebibyte() -> None:
    assert MAX_CREDITS * CHUNK_BYTES == 256 * 1024
