"""Core messages, durable messages, dead letters and reads of streams."""

import asyncio
import gzip
from datetime import UTC, datetime
from random import Random
from string import ascii_lowercase, digits

import pytest
import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import SCHEMA, InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, NodeFact
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import PendingJobs, QueueSnapshot
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import until
from clusterra_runtime import trace
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import PAGE, Stored, last, replay
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.settings import ServiceSettings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def desired(generation: int) -> DesiredState:
    return DesiredState(generation=generation, fence=1, snapshot_generation=1, decided_at=NOW, targets=())


def snapshot(pending: tuple[PendingJobs, ...] = ()) -> QueueSnapshot:
    return QueueSnapshot(generation=1, taken_at=NOW, pending=pending, running=(), nodes=())


async def stored(client: Client, stream: str, subject: str) -> list[Stored]:
    return [message async for message in replay(client, stream, subject)]


async def test_messages_are_handled_in_order_and_in_the_trace_of_their_sender(client: Client, ref: ClusterRef) -> None:
    received: list[tuple[ClusterRef, int, str | None, object]] = []

    async def handler(about: Subject, message: DesiredState) -> None:
        bound = structlog.contextvars.get_contextvars()
        received.append((about.ref, message.generation, trace.trace_id(), (bound["tenant"], bound["cluster"])))

    await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, handler)
    with trace.extract(None):
        sent_in = trace.trace_id()
        for generation in range(1, 6):
            await bus.publish(client, subjects.scale_desired(ref), desired(generation))
    await until(lambda: len(received) == 5, seconds=90, what="five messages")

    assert sent_in is not None
    assert received == [(ref, generation, sent_in, (ref.tenant, ref.cluster)) for generation in range(1, 6)]


async def test_an_exception_of_a_handler_does_not_end_the_subscription(client: Client, ref: ClusterRef) -> None:
    received: list[int] = []

    async def handler(_about: Subject, message: DesiredState) -> None:
        received.append(message.generation)
        if message.generation == 1:
            raise RuntimeError("the first one is too much")

    await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, handler)
    for generation in (1, 2):
        await bus.publish(client, subjects.scale_desired(ref), desired(generation))
    await until(lambda: received == [1, 2], seconds=90, what="both messages")


async def test_repeated_garbage_becomes_one_dead_letter_and_does_not_reach_the_handler(
    client: Client, ref: ClusterRef
) -> None:
    received: list[int] = []

    async def handler(_about: Subject, message: DesiredState) -> None:
        received.append(message.generation)

    subject = subjects.scale_desired(ref)
    await bus.subscribe(client, subject, DesiredState, handler)
    for _ in range(3):
        await client.publish(subject, b"\xff not json", headers={"x-schema": "?"})
    await bus.publish(client, subject, desired(7))
    await until(lambda: received == [7], seconds=90, what="the good message")

    async def kept() -> list[Stored]:
        return await stored(client, "DLQ", subjects.dead_letter(subject))

    (letter,) = await until(kept, seconds=90, what="the dead letter")

    assert letter.body == b"\xff not json"
    assert letter.headers[bus.ORIGIN] == subject
    assert letter.headers["x-schema"] == "?"
    assert "DesiredState" in letter.headers[bus.REASON]


async def test_a_durable_message_is_stored_once_per_id(client: Client, ref: ClusterRef) -> None:
    facts = EventPublisher(client, "test")
    fact = NodeFact(kind="node.registered", node="n1")
    for _ in range(2):
        await facts.publish(ref, fact, version="1", time=NOW)
    await facts.publish(ref, fact, version="2", time=NOW)
    kept = await stored(client, "EVENT", subjects.events_of(ref))

    assert [Event.model_validate_json(message.body).id.split(":")[2] for message in kept] == ["1", "2"]


async def test_a_durable_publish_without_a_stream_fails_after_its_deadline(
    client: Client, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "DURABLE_SECONDS", 0.5)
    with pytest.raises(BusUnavailable, match="no stream"):
        await bus.publish_durable(client, f"nowhere.{ref.tenant}", desired(1), message_id="1")


async def test_a_permanently_rejected_message_is_not_retried(client: Client, ref: ClusterRef) -> None:
    subject = subjects.scale_desired(ref)
    await bus.publish_durable(client, subject, desired(1), message_id=f"{ref.key}:1")
    started = asyncio.get_running_loop().time()

    with pytest.raises(bus.MessageRejected) as rejected:
        await bus.store(client, subject, b"{}", {"Nats-Expected-Last-Subject-Sequence": "0"})
    assert rejected.value.code == 10071
    assert asyncio.get_running_loop().time() - started < 2


async def test_last_returns_the_last_message_of_a_subject(client: Client, ref: ClusterRef) -> None:
    subject = subjects.scale_desired(ref)

    assert await last(client, "SCALE", subject, DesiredState) is None

    sequences = [
        await bus.publish_durable(client, subject, desired(generation), message_id=f"{ref.key}:{generation}")
        for generation in (1, 2)
    ]

    assert await last(client, "SCALE", subject, DesiredState) == (desired(2), sequences[1])

    # Waits until the stream has stored it: a plain publish would race with the read.
    await bus.store(client, subject, b"garbage", {})

    with pytest.raises(InvalidMessage):
        await last(client, "SCALE", subject, DesiredState)
    with pytest.raises(BusUnavailable):
        await last(client, "NOSUCH", subject, DesiredState)


async def test_a_snapshot_over_the_payload_limit_is_sent_compressed(client: Client, ref: ClusterRef) -> None:
    ids = tuple(str(number) for number in range(1_000_000, 1_850_000))
    jobs = PendingJobs(
        job_ids=ids, count=len(ids), cpus=1, partition="main", uid=2000, reason="Resources", first_submitted_at=NOW
    )
    big = snapshot((jobs,))

    assert len(big.model_dump_json()) > client.max_payload

    await bus.publish_durable(client, subjects.job_pending(ref), big, message_id=f"{ref.key}:1")
    found = await last(client, "JOB", subjects.job_sharded(ref), QueueSnapshot)

    assert found is not None
    assert found[0] == big


async def test_a_message_that_exceeds_the_payload_limit_is_rejected(client: Client, ref: ClusterRef) -> None:
    body = gzip.compress(b"x")
    with pytest.raises(bus.MessageRejected, match="payload limit"):
        await bus.store(client, subjects.heartbeat(ref), body * (client.max_payload // len(body) + 1), {})


async def test_a_message_that_exceeds_the_limit_of_the_login_is_rejected_before_the_server_ends_the_connection(
    settings: ServiceSettings, ref: ClusterRef
) -> None:
    agent = bus.Client(login_bytes=1000)
    await agent.open(settings, "test", "_INBOX_test")

    try:
        for body, headers in ((b"x" * 1001, {}), (b"x" * 900, {SCHEMA: "y" * 100})):
            with pytest.raises(bus.MessageRejected, match="payload limit"):
                await bus.store(agent, subjects.heartbeat(ref), body, headers)
        await bus.store(agent, subjects.heartbeat(ref), b"x" * 900, {})

        assert agent.is_connected
    finally:
        await bus.close(agent)


async def test_replay_returns_all_matching_messages_and_continues_after_a_sequence(
    client: Client, ref: ClusterRef
) -> None:
    total = PAGE * 2 + 3
    subject = subjects.event(ref, "node.down")
    sequences = await asyncio.gather(
        # With an id each: on a loaded machine an acknowledgement may time out, and the message is sent again.
        *(
            bus.store(client, subject, str(number).encode(), {"Nats-Msg-Id": f"{ref.key}:{number}"})
            for number in range(total)
        ),
    )
    everything = await stored(client, "EVENT", subjects.events_of(ref))

    assert [message.sequence for message in everything] == sorted(sequences)

    rest = [message async for message in replay(client, "EVENT", subject, after=sorted(sequences)[-3])]

    assert [message.sequence for message in rest] == sorted(sequences)[-2:]


async def test_the_shard_of_a_cluster_is_what_the_server_computes(client: Client) -> None:
    random = Random(1)
    refs = [ClusterRef(tenant=random_id(random), cluster=random_id(random)) for _ in range(300)]
    for ref in refs:
        await client.publish(subjects.job_pending(ref), b"{}")
    await client.flush()

    async def all_stored() -> dict[ClusterRef, str] | None:
        kept = [message.subject async for message in replay(client, "JOB", "job.partition.>")]
        found = {subjects.parse(subject).ref: subject for subject in kept}
        return found if found.keys() >= set(refs) else None

    found = await until(all_stored, seconds=90, what="all snapshots")

    assert {ref: found[ref] for ref in refs} == {ref: subjects.job_sharded(ref) for ref in refs}
    assert {subjects.job_shard(ref) for ref in refs} == set(range(subjects.SHARD_COUNT))


def random_id(random: Random) -> str:
    letters = ascii_lowercase + digits
    return random.choice(letters) + "".join(random.choices(letters + "-", k=random.randrange(39)))
