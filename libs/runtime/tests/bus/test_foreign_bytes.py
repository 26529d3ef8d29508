"""What a party outside the central side may send, byte by byte, at a real server: nobody's connection ends by it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode_foreign
from clusterra_contracts.bus.topology import CONSUMERS, EVENTS_EDGE
from clusterra_contracts.events import Event, WorkerFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.edge_streams import CancelStream
from clusterra_contracts.rpc.reply import Done
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.broker import broker, durable
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last_sequence

from .conftest import connected

HOSTILE = ClusterRef(tenant="hostile", cluster="c1")
OTHER = ClusterRef(tenant="other", cluster="c1")
NO_HEADERS = (b"N", b"NATS/1.0", b"NATS/1.0 \xff\xff\xff\r\n\r\n", b"NATS/1.0 404 \xff\r\nx: y\r\n\r\n")
CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'


@asynccontextmanager
async def raw(server: NatsServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that sends what it likes."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    await reader.readline()
    writer.write(CONNECT)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, block: bytes, reply: bytes) -> None:
    """Answer one request of the hostile cluster with this block in the place of headers, and this reply subject."""
    while not (line := await reader.readline()).startswith((b"MSG", b"HMSG")):
        pass
    to = line.split()[3]
    writer.write(b"HPUB %s %s%d %d\r\n%s{}\r\n" % (to, reply, len(block), len(block) + 2, block))
    await writer.drain()


@pytest.mark.parametrize(("block", "reply"), [*((block, b"") for block in NO_HEADERS), (b"NATS/1.0\r\n\r\n", b"\xff ")])
async def test_an_answer_of_any_bytes_leaves_the_connection_as_it_is(
    block: bytes, reply: bytes, server: NatsServer
) -> None:
    async with connected(server.settings()) as client, raw(server) as (reader, writer):
        before = await last_sequence(client, "EVENT")
        writer.write(b"SUB %s 1\r\nPING\r\n" % subjects.edge(HOSTILE, "stream-cancel").encode())
        while await reader.readline() != b"PONG\r\n":
            pass
        answering = asyncio.create_task(answer(reader, writer, block, reply))

        with pytest.raises(rpc.RpcFailed):
            await rpc.call(
                client,
                subjects.edge(HOSTILE, "stream-cancel"),
                CancelStream(stream_id="0" * 32),
                Done,
                timeout_seconds=2.0,
            )
        await answering

        assert await last_sequence(client, "EVENT") == before


async def tell(client: Client, number: int) -> None:
    fact = WorkerFact(kind="worker.started", worker=f"w-{number}", shape="small")
    event = event_of("edge-agent", OTHER, fact, version=str(number), time=now())
    await bus.publish_durable(client, subjects.edge_event(OTHER, "worker.started"), event, message_id=event.id)


@pytest.mark.parametrize("block", NO_HEADERS)
async def test_a_stored_event_without_readable_headers_holds_up_no_other(block: bytes, server: NatsServer) -> None:
    taken: list[str] = []

    async def take(_subject: subjects.Subject, event: Event, _sequence: int) -> None:
        taken.append(event.subject)

    consumer = next(each for each in CONSUMERS if each.name == EVENTS_EDGE)
    async with connected(server.settings()) as client, raw(server) as (reader, writer):
        consuming = broker(server.settings(), "events", client=client)
        taking = durable(consuming, consumer, partial(decode_foreign, Event, max_bytes=16_384), take, batch_size=1)
        await consuming.start()
        await taking.start()
        subject = subjects.edge_event(HOSTILE, "worker.started").encode()
        writer.write(b"HPUB %s %d %d\r\n%s{}\r\nPING\r\n" % (subject, len(block), len(block) + 2, block))
        while await reader.readline() != b"PONG\r\n":
            pass

        async with connected(server.settings(), "teller") as teller:
            await tell(teller, 1)
        await until(lambda: taken == ["w-1"], seconds=30, what="the event of the other cluster")

        async def nothing_waits() -> bool:
            return not (await client.jetstream().consumer_info(consumer.stream, consumer.name)).num_ack_pending

        await until(nothing_waits, seconds=30, what="the acknowledgement of both")

        await taking.stop()
        await consuming.stop()
