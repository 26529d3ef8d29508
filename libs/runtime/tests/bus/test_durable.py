"""Durable consumers: redelivery, dead letters, outages of the server."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import CONSUMERS, EVENTS_ARCHIVE, Consumer
from clusterra_contracts.events import Event, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime import trace
from clusterra_runtime.metrics import UNSERVED_PULLS
from clusterra_runtime.nats import broker as broker_module
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.broker import Broker, Durable, broker, durable
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.settings import ServiceSettings
from nats.aio.msg import Msg
from structlog.testing import capture_logs

from .conftest import Usage, connected

type Handler = Callable[[Subject, Event, int], Awaitable[None]]


def consumer_of(ref: ClusterRef, max_deliver: int = 10) -> Consumer:
    return Consumer("EVENT", f"test-{ref.tenant}", subjects.events_of(ref), max_deliver=max_deliver)


async def create(client: Client, consumer: Consumer) -> None:
    subject = f"$JS.API.CONSUMER.CREATE.{consumer.stream}.{consumer.name}.{consumer.filter_subject}"
    body = {"stream_name": consumer.stream, "config": topology.consumer_config(consumer)}
    answer = json.loads((await client.request(subject, json.dumps(body).encode(), timeout=5)).data)
    assert "error" not in answer, answer


async def publish_event(client: Client, ref: ClusterRef, version: int) -> int:
    event = event_of("test", ref, NodeFact(kind="node.down", node="n1"), version=str(version), time=now())
    return await bus.publish_durable(client, subjects.event(ref, event.kind), event, message_id=event.id)


async def pending_counts(client: Client, consumer: Consumer) -> tuple[int, int]:
    """The number of messages that wait for an acknowledgement, and of those that wait for delivery."""
    info = await client.jetstream().consumer_info(consumer.stream, consumer.name)
    return info.num_ack_pending or 0, info.num_pending or 0


async def all_settled(client: Client, consumer: Consumer) -> None:
    async def settled() -> bool:
        return await pending_counts(client, consumer) == (0, 0)

    await until(settled, seconds=90, what="the acknowledgements")


async def dead_letters(client: Client, ref: ClusterRef) -> list[Stored]:
    return [letter async for letter in replay(client, "DLQ", f"dlq.{subjects.events_of(ref)}")]


@asynccontextmanager
async def handled_by(
    settings: ServiceSettings,
    consumer: Consumer,
    handler: Handler,
    client: Client | None = None,
    outages: tuple[type[Exception], ...] = (),
) -> AsyncIterator[tuple[Broker, Durable[Event]]]:
    bus_broker = broker(settings, "test", client=client)
    await bus_broker.start()
    subscription = durable(bus_broker, consumer, partial(decode, Event), handler, outages=outages)
    await subscription.start()
    try:
        yield bus_broker, subscription
    finally:
        await subscription.stop()
        await bus_broker.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "pause_seconds", lambda _deliveries: 0.02)


async def test_a_message_that_is_the_last_one_is_asked_for_once(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    received: list[int] = []
    asked: list[bytes] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    async def note(request: Msg) -> None:
        asked.append(request.data)

    consumer = consumer_of(ref)
    await create(client, consumer)
    watching = await client.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream}.{consumer.name}", cb=note)
    async with handled_by(settings, consumer, handler):
        # One that does not wait, and one that waits.
        await until(lambda: len(asked) == 2, seconds=60, what="the first requests")
        for number in range(1, 4):
            await publish_event(client, ref, number)
            await until(lambda: len(asked) == 2 + number, seconds=60, what="the next request")  # noqa: B023
        await all_settled(client, consumer)

        for version in range(4, 44):
            await publish_event(client, ref, version)
        await until(lambda: len(received) == 43, seconds=60, what="all messages")
    await watching.unsubscribe()

    assert received[:3] == sorted(received)[:3]
    assert sum(b"no_wait" in request for request in asked[:5]) == 1


async def test_a_message_is_handled_immediately_and_acknowledged(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    received: list[tuple[ClusterRef, str, int, str | None]] = []

    async def handler(about: Subject, event: Event, sequence: int) -> None:
        received.append((about.ref, event.kind, sequence, trace.trace_id()))

    consumer = consumer_of(ref)
    await create(client, consumer)
    async with handled_by(settings, consumer, handler) as (_, subscription):
        await until(lambda: subscription.working, seconds=90, what="the subscription")
        expected: list[tuple[ClusterRef, str, int, str | None]] = []
        for version in range(3):
            with trace.extract(None):
                expected.append((ref, "node.down", await publish_event(client, ref, version), trace.trace_id()))
                # Far sooner than a pull request expires: a message ends its wait.
                await until(lambda: received == expected, seconds=30, what="the message")
        await all_settled(client, consumer)


async def test_each_message_of_a_backlog_is_handled_once(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    received: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    consumer = consumer_of(ref)
    await create(client, consumer)
    sequences = await asyncio.gather(*(publish_event(client, ref, version) for version in range(500)))
    async with handled_by(settings, consumer, handler):
        await until(lambda: len(received) >= 500, seconds=90, what="all messages")

    assert sorted(received) == sorted(sequences)


async def test_garbage_becomes_a_dead_letter_immediately(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    received: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    consumer = consumer_of(ref)
    await create(client, consumer)
    async with handled_by(settings, consumer, handler):
        garbage = await bus.store(client, subjects.event(ref, "node.down"), b"\x00{", {"x-schema": "event.v1"})
        good = await publish_event(client, ref, 1)
        await until(lambda: received == [good], seconds=90, what="the good message")
        (letter,) = await until(lambda: dead_letters(client, ref), seconds=90, what="the dead letter")

    assert letter.headers["Nats-Msg-Id"] == f"dlq-EVENT-{garbage}"
    assert letter.body == b"\x00{"

    info = await client.jetstream().consumer_info("EVENT", consumer.name)

    assert (info.num_redelivered, info.num_ack_pending) == (0, 0)


@pytest.mark.parametrize("status", ["100", "404", "408", "409", "503"])
async def test_a_sender_cannot_answer_in_the_name_of_the_server(
    settings: ServiceSettings, client: Client, ref: ClusterRef, status: str
) -> None:
    received: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    consumer = consumer_of(ref)
    await create(client, consumer)
    # JetStream delivers a message without a body as it does its own answers.
    empty = await bus.store(client, subjects.event(ref, "node.down"), b"", {"x-schema": "event.v1", "Status": status})
    async with handled_by(settings, consumer, handler):
        good = await publish_event(client, ref, 1)
        await until(lambda: received == [good], seconds=90, what="the good message")
        (letter,) = await until(lambda: dead_letters(client, ref), seconds=90, what="the dead letter")
        await all_settled(client, consumer)

    assert letter.headers["Nats-Msg-Id"] == f"dlq-EVENT-{empty}"


async def test_a_message_is_delivered_again_after_its_handler_failed(
    settings: ServiceSettings, client: Client, ref: ClusterRef, quick: None
) -> None:
    tries = 0

    async def handler(_about: Subject, _event: Event, _sequence: int) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise ConnectionError("the store is away")

    consumer = consumer_of(ref)
    await create(client, consumer)
    async with handled_by(settings, consumer, handler):
        await publish_event(client, ref, 1)
        await until(lambda: tries == 4, seconds=90, what="the fourth delivery")
        await all_settled(client, consumer)

    assert await dead_letters(client, ref) == []


async def test_an_outage_is_logged_once_and_its_end_too(
    settings: ServiceSettings, client: Client, ref: ClusterRef, quick: None
) -> None:
    tries: Counter[str] = Counter()
    away = True

    async def handler(_about: Subject, event: Event, _sequence: int) -> None:
        tries[event.id] += 1
        if away:
            raise ConnectionError("the store is too busy")

    consumer = consumer_of(ref)
    await create(client, consumer)
    with capture_logs() as logs:
        async with handled_by(settings, consumer, handler, outages=(ConnectionError,)):
            for number in range(3):
                await publish_event(client, ref, number)
            await until(
                lambda: len(tries) == 3 and min(tries.values()) > 2, seconds=90, what="several tries of each event"
            )
            away = False
            await all_settled(client, consumer)

    told = [(line["event"], line["log_level"]) for line in logs if line["event"].startswith("handler_")]
    assert told == [("handler_waits", "warning"), ("handler_goes_on", "info")]
    assert not any("exc_info" in line for line in logs)
    assert await dead_letters(client, ref) == []


async def test_a_message_whose_handler_always_fails_becomes_a_dead_letter(
    settings: ServiceSettings, client: Client, ref: ClusterRef, quick: None
) -> None:
    tries = 0

    async def handler(_about: Subject, _event: Event, _sequence: int) -> None:
        nonlocal tries
        tries += 1
        raise ConnectionError("the password is xyzzy")

    consumer = consumer_of(ref, max_deliver=3)
    await create(client, consumer)
    async with handled_by(settings, consumer, handler):
        await publish_event(client, ref, 1)
        (letter,) = await until(lambda: dead_letters(client, ref), seconds=90, what="the dead letter")

        assert tries == 3
        assert letter.headers[bus.REASON] == "failed 3 times, last: ConnectionError"

        await all_settled(client, consumer)

    assert tries == 3


def test_pauses_between_deliveries_grow_to_a_limit() -> None:
    pauses = [broker_module.pause_seconds(deliveries) for deliveries in range(1, 11)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]


async def test_a_stop_waits_for_handlers_and_allows_another_start(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    entered = asyncio.Event()
    go = asyncio.Event()
    finished: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        entered.set()
        await go.wait()
        finished.append(sequence)

    consumer = consumer_of(ref)
    await create(client, consumer)
    async with handled_by(settings, consumer, handler, client) as (_, subscription):
        first = await publish_event(client, ref, 1)
        await entered.wait()
        stopping = asyncio.create_task(subscription.stop())
        await until(lambda: not subscription.working, seconds=90, what="the stop")
        second = await publish_event(client, ref, 2)

        assert not stopping.done()

        go.set()
        await stopping

        assert finished == [first]

        await subscription.start()
        await until(lambda: finished == [first, second], seconds=90, what="the second message")

    assert client.is_connected


async def test_a_durable_consumer_survives_the_death_of_the_server(server: NatsServer, ref: ClusterRef) -> None:
    received: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    settings = ServiceSettings(nats_url=server.url)
    consumer = consumer_of(ref)
    async with connected(settings) as client:
        await create(client, consumer)
        async with handled_by(settings, consumer, handler) as (_, subscription):

            async def survive_death(death: int) -> None:
                before = await publish_event(client, ref, death * 2)
                await until(lambda: before in received, seconds=90, what="the message before")
                usage = Usage()
                await server.kill()
                await until(lambda: not subscription.working, seconds=90, what="the lost connection")
                await until(lambda: usage.seconds > 1, seconds=90, what="some attempts to reconnect")
                assert usage.share < 0.5
                await server.restart()
                after = await publish_event(client, ref, death * 2 + 1)
                # Far sooner than a pull request expires: the renewed connection ends its wait.
                await until(lambda: after in received, seconds=30, what="the message after")

            for death in range(2):
                await survive_death(death)


async def test_pulls_from_a_missing_consumer_are_slow_and_resume_when_it_exists(server: NatsServer) -> None:
    received: list[int] = []

    async def handler(_about: Subject, _event: Event, sequence: int) -> None:
        received.append(sequence)

    settings = ServiceSettings(nats_url=server.url)
    ref = ClusterRef(tenant="acme", cluster="c1")
    consumer = next(declared for declared in CONSUMERS if declared.name == EVENTS_ARCHIVE)
    unserved = UNSERVED_PULLS.labels(f"EVENT/{consumer.name}")
    async with connected(settings) as client, handled_by(settings, consumer, handler) as (_, subscription):
        sequence = await publish_event(client, ref, 1)
        await until(lambda: sequence in received, seconds=90, what="the message before")
        await client.jetstream().delete_consumer("EVENT", consumer.name)
        usage, before = Usage(), unserved._value.get()
        # The pauses double, so the first two requests alone would follow each other closely.
        await until(lambda: unserved._value.get() - before >= 5, seconds=60, what="some unanswered requests")

        assert (unserved._value.get() - before) / usage.seconds < 6
        assert usage.share < 0.5
        assert not subscription.working

        await topology.apply(client)
        # Far sooner than the request expires, and without a message.
        await until(lambda: subscription.working, seconds=30, what="a request that the server confirms")
        sequence = await publish_event(client, ref, 2)
        await until(lambda: sequence in received, seconds=90, what="the message after")


async def test_a_durable_consumer_can_be_stopped_while_the_server_is_away(server: NatsServer, ref: ClusterRef) -> None:
    async def handler(_about: Subject, _event: Event, _sequence: int) -> None:
        return

    settings = ServiceSettings(nats_url=server.url)
    consumer = next(declared for declared in CONSUMERS if declared.name == EVENTS_ARCHIVE)
    async with asyncio.timeout(90), handled_by(settings, consumer, handler) as (_, subscription):
        await server.kill()
        await until(lambda: not subscription.working, seconds=90, what="the lost connection")
