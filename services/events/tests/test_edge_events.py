"""Events of edge-agents: theirs arrive in order; what is forged, garbage or too much hurts no other cluster."""

import gzip
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import CONTENT_ENCODING, GZIP, MESSAGE_ID, encode
from clusterra_contracts.bus.topology import DLQ, EDGE_EVENT, EVENT
from clusterra_contracts.events import Event, ScaleFact, WorkerFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import Process, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.settings import ServiceSettings

from .events_process import archived, started

NOISY = ClusterRef(tenant="noisy", cluster="main")
QUIET = ClusterRef(tenant="quiet", cluster="main")


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield client
    await bus.close(client)


@asynccontextmanager
async def service(environment: dict[str, str], directory: Path) -> AsyncIterator[Process]:
    process = await started(environment, directory)
    try:
        yield process
    finally:
        await process.stop()


def worker_event(ref: ClusterRef, number: int) -> Event:
    fact = WorkerFact(kind="worker.started", worker=f"general-small-{number}", shape="general-small")
    return event_of("edge-agent", ref, fact, version="1", time=now() + timedelta(milliseconds=number))


async def tell(client: Client, ref: ClusterRef, event: Event) -> None:
    await bus.publish_durable(client, subjects.edge_event(ref, event.kind), event, message_id=event.id)


async def test_events_of_an_agent_are_taken_in_their_order_and_once(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    events = [worker_event(QUIET, number) for number in range(50)]

    async with service(environment, tmp_path) as process:
        for event in [*events, *events[:10]]:
            await tell(client, QUIET, event)
        found = await archived(client, len(events), process, QUIET)
        streamed = [stored async for stored in replay(client, EVENT.name, subjects.events_of(QUIET))]

    assert found == events
    assert [Event.model_validate_json(stored.body) for stored in streamed] == events


async def test_what_an_agent_may_not_tell_becomes_a_dead_letter_and_harms_nobody(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    decided = ScaleFact(generation=7, fence=1, snapshot_generation=1, changes=())
    target = event_of("scaler", QUIET, decided, version="7", time=now())
    stolen = worker_event(NOISY, 1).model_copy(update={"id": target.id})
    lie = event_of("edge-agent", NOISY, decided, version="8", time=now())
    long = worker_event(NOISY, 1).model_copy(update={"subject": "x" * 2_100})
    huge = gzip.compress(b'{"data":{"kind":"scale.decided","changes":[' + b"1," * 2_000_000 + b"1]}}")
    subject = subjects.edge_event(NOISY, "worker.started")

    async with service(environment, tmp_path) as process:
        for event in (stolen, lie, long):
            body, headers = encode(event, message_id=event.id)
            await bus.store(client, subject, body, headers)
        await bus.store(client, subject, b"\xff", {MESSAGE_ID: "garbage"})
        await bus.store(client, subject, huge[: EDGE_EVENT.bounds.message_bytes // 2], {CONTENT_ENCODING: GZIP})
        with pytest.raises(bus.MessageRejected):
            await bus.store(client, subject, bytes(EDGE_EVENT.bounds.message_bytes + 1), {})
        await tell(client, NOISY, worker_event(NOISY, 2))
        found = await archived(client, 1, process, NOISY)
        publisher = EventPublisher(client, "scaler")
        await publisher.publish(QUIET, decided, version="7", time=target.time)
        kept = await archived(client, 1, process, QUIET)

        async def five_dead_letters() -> bool:
            return (await client.jetstream().stream_info(DLQ.name)).state.messages >= 5

        await until(five_dead_letters, seconds=90, what="five dead letters", process=process)

    assert [event.id for event in found] == [worker_event(NOISY, 2).id]
    assert kept == [target]


async def test_a_flood_of_one_agent_does_not_hold_up_the_events_of_another_cluster(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    most = EDGE_EVENT.bounds.messages_per_subject
    valid, _ = encode(worker_event(NOISY, 1))

    async with service(environment, tmp_path) as process:
        await tell(client, QUIET, worker_event(QUIET, 0))
        await archived(client, 1, process, QUIET)
        for kind, body in (("worker.started", b"{}"), ("worker.failed", valid), ("worker.lost", bytes(4000))):
            for _ in range(most + 200):
                await client.publish(subjects.edge_event(NOISY, kind), body)
            await client.flush()
        began = time.monotonic()
        await tell(client, QUIET, worker_event(QUIET, 1))
        await archived(client, 2, process, QUIET)
        taken = time.monotonic() - began
        dead = (await client.jetstream().stream_info(DLQ.name)).state
        log = (tmp_path / "events.log").read_text()

    assert taken < 90
    assert dead.messages <= 3 * DLQ.bounds.messages_per_subject
    assert log.count("dead_letter") < 200
