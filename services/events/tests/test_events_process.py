"""The events service as a process: it loses and duplicates no event, whatever is killed."""

import json
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import CONSUMERS, DLQ, EVENTS_ARCHIVE
from clusterra_contracts.events import NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client, publish_durable
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.settings import ServiceSettings

from .events_process import archived, started

REF = ClusterRef(tenant="acme", cluster="main")
MAX_RESIDENT_BYTES = 110 * 1024 * 1024


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield client
    await bus.close(client)


async def test_each_event_is_archived_once_over_crashes_and_repetitions(
    environment: dict[str, str], client: Client, nats: NatsServer, tmp_path: Path
) -> None:
    publisher = EventPublisher(client, "proxy")
    facts = [NodeFact(kind="node.down", node=f"n{number}") for number in range(120)]
    begin = now()
    moments = [begin + timedelta(milliseconds=number) for number in range(len(facts))]
    process = await started(environment, tmp_path)
    try:
        for number, (fact, moment) in enumerate(zip(facts, moments, strict=True)):
            await publisher.publish(REF, fact, version="1", time=moment)
            if number == 40:
                await archived(client, 1, process)
                process.kill()
                await process.wait()
                process = await process.again()
            if number == 80:
                await nats.kill()
                await nats.restart()
        # Published again under other message ids, as after the end of the stream's deduplication window.
        for fact, moment in zip(facts[:30], moments[:30], strict=True):
            event = event_of("proxy", REF, fact, version="1", time=moment)
            await publish_durable(client, subjects.event(REF, fact.kind), event, message_id=f"again-{event.id}")
        last = NodeFact(kind="node.removed", node="the-last")
        await publisher.publish(REF, last, version="1", time=begin + timedelta(seconds=1))

        found = await archived(client, len(facts) + 1, process)

        assert [event.data for event in found] == [*facts, last]
        assert [event.time for event in found[:-1]] == moments
        assert psutil.Process(process.pid).memory_info().rss < MAX_RESIDENT_BYTES

        process.signal(signal.SIGTERM)

        assert await process.wait() == 0
    finally:
        await process.stop()


async def test_garbage_becomes_dead_letters_and_does_not_block_the_consumer(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    ref = ClusterRef(tenant="acme", cluster="garbage")
    js = client.jetstream()
    before = (await js.stream_info(DLQ.name)).state.messages
    process = await started(environment, tmp_path)
    try:
        misplaced = event_of("edge-agent", ref, NodeFact(kind="node.down", node="n1"), version="1", time=now())
        for body in (b"", b"\xff\x00", b"{}", misplaced.model_dump_json().encode()):
            await js.publish(subjects.event(ref, "worker.started"), body)
        await js.publish("event.UPPER.main.node.down", misplaced.model_dump_json().encode())
        valid = NodeFact(kind="node.down", node="n2")
        await EventPublisher(client, "proxy").publish(ref, valid, version="1", time=now())

        assert [event.data for event in await archived(client, 1, process, ref)] == [valid]

        async def five_dead_letters() -> bool:
            return (await js.stream_info(DLQ.name)).state.messages >= before + 5

        await until(five_dead_letters, seconds=90, what="five dead letters", process=process)
        (consumer,) = (consumer for consumer in CONSUMERS if consumer.name == EVENTS_ARCHIVE)
        info = await js.consumer_info(consumer.stream, consumer.name)

        assert (info.num_pending, info.num_ack_pending) == (0, 0)
    finally:
        await process.stop()


async def test_an_event_of_a_kind_that_only_newer_releases_know_is_archived_with_all_its_fields(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    ref = ClusterRef(tenant="acme", cluster="newer")
    known = event_of("proxy", ref, NodeFact(kind="node.down", node="n1"), version="1", time=now())
    fact = {"kind": "node.moved", "node": "n1", "to": {"zone": "b"}}
    newer = {**json.loads(known.model_dump_json()), "id": f"{known.id}-moved", "data": fact}
    process = await started(environment, tmp_path)
    try:
        await client.jetstream().publish(subjects.event(ref, "node.moved"), json.dumps(newer).encode())

        (found,) = await archived(client, 1, process, ref)

        assert json.loads(found.model_dump_json())["data"] == fact
    finally:
        await process.stop()
