"""One cluster's heartbeats in excess, huge or garbage, at a real server: those of another arrive all the same."""

import asyncio
import gzip
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import CONTENT_ENCODING, GZIP, InvalidMessage, decode_foreign, encode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import DLQ, HB
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat, max_decoded_bytes
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_sequence
from clusterra_runtime.nats.streams.heartbeats import HeartbeatReader, last_heartbeat
from hypothesis import given
from hypothesis import strategies as st

from .conftest import Usage, connected

NOISY = ClusterRef(tenant="noisy", cluster="c1")
QUIET = ClusterRef(tenant="quiet", cluster="c1")
GARBAGE = gzip.compress(b'{"workers":[' + b"1," * (MAX_DECODED_BYTES // 2 - 10) + b"1]}")
"""A few KiB that say 8 MiB of invalid workers."""
BOMB = gzip.compress(bytes(200 * 1024 * 1024))


def beat(generation: int) -> Heartbeat:
    return Heartbeat(generation=generation, sent_at=now(), agent_version="1", substrate="process", workers=())


LATE_SECONDS = 5.0
"""A tenth of this on an idle machine. An edge is lost after 15 s without a heartbeat."""


class Heard:
    def __init__(self) -> None:
        self.generations: dict[ClusterRef, list[int]] = {NOISY: [], QUIET: []}

    def has(self, ref: ClusterRef, generation: int) -> bool:
        return generation in self.generations[ref]

    def receive(self, subject: Subject, heartbeat: Heartbeat) -> None:
        self.generations[subject.ref].append(heartbeat.generation)


@asynccontextmanager
async def reading(client: Client, heard: Heard, max_bytes: int = MAX_DECODED_BYTES) -> AsyncIterator[None]:
    reader = HeartbeatReader(client, heard.receive, lambda _ref: max_bytes)
    await reader.begin()
    running = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


FLOOD = """
import asyncio, sys, nats
url, subject, file, encoding = sys.argv[1:]
async def flood():
    client = await nats.connect(url)
    body = open(file, "rb").read()
    while True:
        for _ in range(20):
            await client.publish(subject, body, headers={"content-encoding": encoding} if encoding else None)
        await client.flush()
asyncio.run(flood())
"""


@asynccontextmanager
async def flood(server: NatsServer, directory: Path, body: bytes, encoding: str = "") -> AsyncIterator[Client]:
    """Publish a heartbeat of the noisy cluster as fast as another process can, until the block ends."""
    file = directory / "body"
    file.write_bytes(body)
    argv = [sys.executable, "-c", FLOOD, server.url, subjects.heartbeat(NOISY), str(file), encoding]
    process = await start("flood", argv, log=directory / "flood.log")
    try:
        async with connected(server.settings(), "quiet") as client:

            async def begun() -> bool:
                return await last_sequence(client, HB.name) > 100

            await until(begun, seconds=90, what="the flood", process=process)
            yield client
    finally:
        await process.stop()


async def latencies(client: Client, heard: Heard, beats: int) -> list[float]:
    """The seconds that each heartbeat of the quiet cluster takes to its reader."""
    taken = []
    for generation in range(1, beats + 1):
        began = time.monotonic()
        await bus.publish(client, subjects.heartbeat(QUIET), beat(generation))
        await until(partial(heard.has, QUIET, generation), seconds=90, what="the heartbeat")
        taken.append(time.monotonic() - began)
    return taken


async def test_a_flood_does_not_hold_up_the_heartbeats_of_others(server: NatsServer, tmp_path: Path) -> None:
    heard = Heard()
    body, _ = encode(beat(1))

    async with (
        connected(server.settings()) as client,
        reading(client, heard),
        flood(server, tmp_path, body) as quiet,
    ):
        taken = await latencies(quiet, heard, 5)

    assert sorted(taken)[len(taken) // 2] < LATE_SECONDS
    assert heard.generations[NOISY]


@pytest.mark.parametrize("body", [GARBAGE, BOMB], ids=["garbage", "bomb"])
async def test_huge_garbage_takes_a_bounded_share_of_the_readers_time(
    server: NatsServer, tmp_path: Path, body: bytes
) -> None:
    heard = Heard()

    async with (
        connected(server.settings()) as client,
        reading(client, heard),
        flood(server, tmp_path, body, GZIP) as quiet,
    ):
        taken = await latencies(quiet, heard, 5)
        dead = (await client.jetstream().stream_info(DLQ.name)).state.messages

    assert sorted(taken)[len(taken) // 2] < LATE_SECONDS
    assert heard.generations[NOISY] == []
    assert dead <= DLQ.bounds.messages_per_subject


async def test_the_newest_heartbeat_of_a_flood_is_read_at_last(server: NatsServer) -> None:
    heard = Heard()

    async with connected(server.settings()) as client, reading(client, heard):
        for generation in range(1, 2001):
            await bus.publish(client, subjects.heartbeat(NOISY), beat(generation))

        await until(lambda: 2000 in heard.generations[NOISY], seconds=30, what="the last heartbeat")

    assert heard.generations[NOISY] == sorted(heard.generations[NOISY])
    assert len(heard.generations[NOISY]) < 1000


async def test_a_heartbeat_that_is_too_large_for_its_cluster_is_not_parsed(server: NatsServer) -> None:
    heard = Heard()
    large = beat(1).model_copy(update={"agent_version": "x" * 3_400_000})

    async with connected(server.settings()) as client, reading(client, heard, max_decoded_bytes(100)):
        await bus.publish(client, subjects.heartbeat(NOISY), large)
        await bus.publish(client, subjects.heartbeat(QUIET), beat(1))
        await until(partial(heard.has, QUIET, 1), seconds=90, what="the heartbeat of the quiet cluster")

        assert not heard.has(NOISY, 1)


async def test_a_stored_heartbeat_that_is_too_large_for_its_cluster_is_not_parsed(server: NatsServer) -> None:
    large = beat(1).model_copy(update={"agent_version": "x" * 3_400_000})

    async with connected(server.settings()) as client:
        await bus.publish_durable(client, subjects.heartbeat(NOISY), large, message_id="large")

        with pytest.raises(InvalidMessage, match="more than"):
            await last_heartbeat(client, NOISY, max_decoded_bytes(100))
        found = await last_heartbeat(client, NOISY, MAX_DECODED_BYTES)
        assert found is not None
        assert found[0] == large
        assert await last_heartbeat(client, QUIET) is None


def test_the_largest_heartbeat_of_5000_workers_is_read() -> None:
    machine = {"created_at": now(), "billable_from": now()}
    names = [f"compute-xlarge-{number:04}" for number in range(5000)]
    heartbeat = Heartbeat.model_validate(
        {
            **beat(1).model_dump(),
            "workers": [
                {"name": name, "shape": "compute-xlarge", "phase": "running", "started_at": now(), "node": "x" * 60}
                for name in names
            ],
            "nodes": [
                {
                    "name": "x" * 60,
                    "ready": True,
                    "instance_type": "c7gn.metal-48xl",
                    "instance_id": "i" * 19,
                    **machine,
                }
                for _ in names
            ],
            "node_claims": [
                {
                    "name": "x" * 60,
                    "nodepool": "compute-xlarge",
                    "instance_id": "i" * 19,
                    "instance_type": "c7gn.metal-48xl",
                    "node_name": "x" * 60,
                    "launched": True,
                    **machine,
                }
                for _ in names
            ],
            "prices": [
                {"instance_type": "c7gn.metal-48xl", "lifecycle": "spot", "zone": "eu-central-1a", "usd_per_hour": 1.5}
                for _ in range(10_000)
            ],
        }
    )

    assert len(heartbeat.model_dump_json()) < max_decoded_bytes(5000)


async def test_an_idle_stream_costs_little(server: NatsServer) -> None:
    heard = Heard()

    async with connected(server.settings()) as client, reading(client, heard):
        usage = Usage()
        await asyncio.sleep(3)

        assert usage.share < 0.1
        assert (await client.jetstream().stream_info(HB.name)).state.consumer_count == 0


def test_garbage_of_a_few_kib_is_refused_quickly() -> None:
    began = time.process_time()

    with pytest.raises(InvalidMessage):
        decode_foreign(Heartbeat, GARBAGE, {CONTENT_ENCODING: GZIP}, max_bytes=MAX_DECODED_BYTES)
    with pytest.raises(InvalidMessage, match="more than"):
        decode_foreign(Heartbeat, BOMB, {CONTENT_ENCODING: GZIP}, max_bytes=MAX_DECODED_BYTES)

    assert time.process_time() - began < 2.0


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_garbage_is_an_invalid_message(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        decode_foreign(Heartbeat, body, max_bytes=100)


@pytest.mark.parametrize("headers", [{"Status": "404"}, {"Status": "204"}, {"Status": "503"}, {"Nats-Sequence": "x"}])
async def test_headers_of_a_heartbeat_do_not_pass_for_those_of_the_server(
    server: NatsServer, headers: dict[str, str]
) -> None:
    heard = Heard()
    body, own = encode(beat(1))

    async with connected(server.settings()) as client, reading(client, heard):
        await client.publish(subjects.heartbeat(NOISY), body, headers={**own, **headers})
        await bus.publish(client, subjects.heartbeat(QUIET), beat(1))
        await until(partial(heard.has, QUIET, 1), seconds=90, what="the heartbeat of the quiet cluster")

        assert heard.has(NOISY, 1)
