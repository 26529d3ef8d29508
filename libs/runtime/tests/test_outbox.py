"""The outbox on a real NATS server and on both stores: nothing untold, nothing twice, nothing out of order."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

import pytest
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import InvalidItem, Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import (
    OUTBOX,
    PUBLISH_SECONDS,
    RELAY_AFTER_SECONDS,
    SHARDS,
    Outbox,
    OutboxMessage,
    Publish,
    with_messages,
)
from clusterra_runtime.store.store import ConditionFailed, Put, Store, StoreUnavailable, Table, Update

JOBS = Table("jobs", (OUTBOX,))
KEY = Key("acme/c1", "job#1")


class Clock:
    """Moves when told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def later(self) -> None:
        """Everything that is unsent now counts as left behind."""
        self.now += RELAY_AFTER_SECONDS + 1


class Crash(Exception):
    """Stands for the end of a process."""


class Faulty:
    """A publisher that fails as it is told, before or after the message was stored."""

    def __init__(self, publish: Publish, faults: Sequence[str]) -> None:
        self._publish = publish
        self._faults = list(faults)

    async def __call__(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        fault = self._faults.pop(0) if self._faults else ""
        if fault == "before":
            raise Crash
        await self._publish(subject, body, headers)
        if fault == "after":
            raise Crash


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "dynamodb"])
def adapter(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    request.getfixturevalue("aws")
    return DynamoDBStore(table_prefix=f"{uuid.uuid4()}-")


@pytest.fixture
async def store(adapter: Store) -> AsyncIterator[Store]:
    async with adapter as opened:
        await opened.create_tables(JOBS)
        yield opened


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    await connection.jetstream().add_stream(name="EVENT", subjects=["event.>"])
    yield connection
    await bus.close(connection)


@pytest.fixture
def publish(client: Client) -> Publish:
    return partial(bus.store, client)


def told(version: int, kind: str = "changed", entity: str = "job-1") -> OutboxMessage:
    return OutboxMessage(
        event_id=f"{entity}:{version}:{kind}",
        subject=f"event.acme.c1.{entity}",
        body=f"{version}".encode(),
        headers={"content-type": "text/plain"},
    )


def change(version: int, key: Key = KEY) -> Update:
    """The write that makes this version of an item."""
    return Update(JOBS, key, set={"value": version}, condition=VersionIs(version - 1) if version > 1 else Absent())


async def stream(client: Client) -> list[tuple[str, bytes, str]]:
    """Subject, body and id of every message that was stored."""
    js = client.jetstream()
    last = (await js.stream_info("EVENT")).state.last_seq
    messages = [await js.get_msg("EVENT", sequence) for sequence in range(1, last + 1)]
    return [(str(each.subject), each.data or b"", (each.headers or {})[MESSAGE_ID]) for each in messages]


async def ids(client: Client) -> list[str]:
    return [message_id for _, _, message_id in await stream(client)]


async def unsent(store: Store) -> list[Key]:
    return [key for shard in range(SHARDS) for key in await store.query_index(JOBS, OUTBOX, str(shard))]


async def test_a_write_is_told_at_once(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        item = await outbox.write(Put(JOBS, KEY, {"value": 1}, Absent()), [told(1), told(1, "paid")])
        assert await stream(client) == [
            ("event.acme.c1.job-1", b"1", "job-1:1:changed"),
            ("event.acme.c1.job-1", b"1", "job-1:1:paid"),
        ]
    assert item == Item(KEY, {"value": 1}, 1)
    assert await store.get(JOBS, KEY) == item
    assert await unsent(store) == []


async def test_headers_travel(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        await outbox.write(change(1), [told(1)])
    message = await client.jetstream().get_msg("EVENT", 1)
    assert message.headers == {"content-type": "text/plain", MESSAGE_ID: "job-1:1:changed"}


async def test_what_was_not_written_is_not_told(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        with pytest.raises(ConditionFailed):
            await outbox.write(change(5), [told(5)])
    assert await ids(client) == []
    assert await unsent(store) == []


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_crash_around_the_publish_is_made_good(
    store: Store, client: Client, publish: Publish, clock: Clock, fault: str
) -> None:
    async with Outbox(store, Faulty(publish, [fault]), clock=clock) as crashed:
        item = await crashed.write(change(1), [told(1)])
    assert item == Item(KEY, {"value": 1}, 1)
    assert await unsent(store) == [KEY]
    async with Outbox(store, publish, clock=clock) as survivor:
        assert await survivor.relay_once(JOBS) == 0, "its writer may still be at it"
        clock.later()
        assert await survivor.relay_once(JOBS) == 1
        assert await survivor.relay_once(JOBS) == 0
    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == item
    assert await unsent(store) == []


async def test_a_crash_before_the_clearing_is_made_good(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    carrying = await store.write(with_messages(change(1), [told(1)], now=clock.now))
    await publish("event.acme.c1.job-1", b"1", {MESSAGE_ID: "job-1:1:changed"})
    assert "outbox" in carrying.attributes
    clock.later()
    async with Outbox(store, publish, clock=clock) as survivor:
        assert await survivor.relay_once(JOBS) == 1
    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 1}, 1)


async def test_a_store_that_fails_at_the_clearing_fails_no_write(client: Client, publish: Publish) -> None:
    class Failing(MemoryStore):
        async def write(self, write: Put | Update) -> Item:
            if isinstance(write, Update) and write.keep_version:
                raise StoreUnavailable("away")
            return await super().write(write)

    store = Failing()
    await store.create_tables(JOBS)
    async with Outbox(store, publish) as outbox:
        await outbox.write(change(1), [told(1)])
    assert await ids(client) == ["job-1:1:changed"]
    assert await unsent(store) == [KEY]


async def test_writes_go_on_while_nats_is_away(
    store: Store, client: Client, publish: Publish, nats: NatsServer, clock: Clock
) -> None:
    loop = asyncio.get_running_loop()
    async with Outbox(store, publish, clock=clock) as outbox:
        await outbox.write(change(1), [told(1)])
        await nats.kill()
        started = loop.time()
        item = await outbox.write(change(2), [told(2)])
        assert loop.time() - started < PUBLISH_SECONDS + 5
        assert item == Item(KEY, {"value": 2}, 2)
        clock.later()
        assert await outbox.relay_once(JOBS) == 0
        await nats.restart()
        assert await client.wait_connected(10)

        async def relayed() -> bool:
            return await outbox.relay_once(JOBS) == 1

        await until(relayed, seconds=30, what="the relay's success")
        await outbox.write(change(3), [told(3)])
    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed", "job-1:3:changed"]
    assert await unsent(store) == []


async def test_a_later_write_sends_what_an_earlier_one_left(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    async with Outbox(store, Faulty(publish, ["before", "before"]), clock=clock) as outbox:
        await outbox.write(change(1), [told(1)])
        await outbox.write(change(2), [told(2)])
        assert await ids(client) == []
        await outbox.write(change(3), [told(3)])
    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed", "job-1:3:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 3}, 3)


async def test_full_states_do_not_pile_up(store: Store, client: Client, publish: Publish, clock: Clock) -> None:
    async with Outbox(store, Faulty(publish, ["before"] * 3), clock=clock) as outbox:
        for version in (1, 2, 3):
            await outbox.write(change(version), [told(version)], superseding=True)
        clock.later()
        assert await outbox.relay_once(JOBS) == 1
    assert await ids(client) == ["job-1:3:changed"]


async def test_a_transactions_messages_are_sent(store: Store, client: Client, publish: Publish, clock: Clock) -> None:
    other = Key("acme", "quota")
    carrying = with_messages(Put(JOBS, KEY, {"value": 1}, Absent()), [told(1)], now=clock.now)
    await store.transact([carrying, Update(JOBS, other, add={"jobs": 1})], token="submit-1")
    async with Outbox(store, publish, clock=clock) as outbox:
        await outbox.send(JOBS, KEY)
        await outbox.send(JOBS, other)
        await outbox.send(JOBS, Key("nobody", "at all"))
    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 1}, 1)


def test_a_write_that_would_lose_messages_is_refused() -> None:
    with pytest.raises(InvalidItem):
        with_messages(Put(JOBS, KEY, {}, VersionIs(3)), [told(4)], now=0)
    with pytest.raises(InvalidItem):
        with_messages(Update(JOBS, KEY, keep_version=True), [told(4)], now=0)


async def test_an_entry_that_cannot_be_read_stops_no_other(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    broken = with_messages(change(1), [told(1)], now=clock.now)
    assert isinstance(broken, Update)
    await store.write(Update(JOBS, Key("p", "broken"), set={**broken.set, "outbox": [{"subject": 1}]}))
    await store.write(broken)
    clock.later()
    async with Outbox(store, publish, clock=clock) as outbox:
        assert await outbox.relay_once(JOBS) == 1
    assert await ids(client) == ["job-1:1:changed"]
    assert await unsent(store) == [Key("p", "broken")]


async def test_the_relay_runs_until_cancelled(store: Store, client: Client, publish: Publish) -> None:
    # Long ago by every clock, so that the relay, on the real one, takes it up.
    await store.write(with_messages(change(1), [told(1)], now=1_000_000.0))
    async with Outbox(store, publish) as outbox:
        missing = Table("missing", (OUTBOX,))
        relay = asyncio.create_task(outbox.relay(missing, JOBS))

        async def sent() -> bool:
            return await unsent(store) == []

        await until(sent, seconds=30, what="the first message")
        await store.write(with_messages(change(2), [told(2)], now=1_000_000.0))
        await until(sent, seconds=30, what="the second message")
        relay.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relay
    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed"]


@pytest.mark.parametrize("seed", range(3))
async def test_failing_writers_and_racing_relays_lose_repeat_and_reorder_nothing(
    store: Store, client: Client, publish: Publish, clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    entities = [f"job-{number}" for number in range(4)]
    last = 6

    def faults() -> list[str]:
        return [chance.choice(["", "", "before", "after"]) for _ in range(200)]

    async with Outbox(store, Faulty(publish, faults()), clock=clock) as writer:

        async def live(entity: str) -> None:
            for version in range(1, last + 1):
                await writer.write(
                    change(version, Key("acme", entity)), [told(version, "a", entity), told(version, "b", entity)]
                )
                clock.now += chance.uniform(0, RELAY_AFTER_SECONDS)

        async def relay() -> None:
            async with Outbox(store, Faulty(publish, faults()), clock=clock) as relaying:
                while not all(life.done() for life in lives):
                    await relaying.relay_once(JOBS)
                    await asyncio.sleep(0)

        lives = [asyncio.create_task(live(entity)) for entity in entities]
        await asyncio.gather(*lives, relay(), relay())
    clock.later()
    async with Outbox(store, publish, clock=clock) as survivor:
        await survivor.relay_once(JOBS)
    stored = await ids(client)
    for entity in entities:
        expected = [f"{entity}:{version}:{kind}" for version in range(1, last + 1) for kind in "ab"]
        assert [message_id for message_id in stored if message_id.startswith(f"{entity}:")] == expected
    assert await unsent(store) == []
