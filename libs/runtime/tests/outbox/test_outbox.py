"""The outbox: a write publishes its messages, once and in order."""

import pytest
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_runtime.nats.client import Client
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import InvalidItem, Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox, Publish
from clusterra_runtime.store.outbox_item import with_messages
from clusterra_runtime.store.store import ConditionFailed, Put, Store, StoreUnavailable, TransactionCancelled, Update

from .conftest import JOBS, KEY, Clock, Faulty, change, ids, outbox_message, stream, unsent


async def test_a_write_publishes_its_messages_immediately(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        item = await outbox.write(
            Put(JOBS, KEY, {"value": 1}, Absent()), [outbox_message(1), outbox_message(1, "paid")]
        )

        assert await stream(client) == [
            ("event.acme.c1.job-1", b"1", "job-1:1:changed"),
            ("event.acme.c1.job-1", b"1", "job-1:1:paid"),
        ]

    assert item == Item(KEY, {"value": 1}, 1)
    assert await store.get(JOBS, KEY) == item
    assert await unsent(store) == []


async def test_headers_are_published_with_their_message(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        await outbox.write(change(1), [outbox_message(1)])
    message = await client.jetstream().get_msg("EVENT", 1)
    assert message.headers == {"content-type": "text/plain", MESSAGE_ID: "job-1:1:changed"}


async def test_a_failed_write_publishes_nothing(store: Store, client: Client, publish: Publish) -> None:
    async with Outbox(store, publish) as outbox:
        with pytest.raises(ConditionFailed):
            await outbox.write(change(5), [outbox_message(5)])
    assert await ids(client) == []
    assert await unsent(store) == []


async def test_a_write_succeeds_even_if_its_sent_messages_cannot_be_removed(client: Client, publish: Publish) -> None:
    class Failing(MemoryStore):
        async def write(self, write: Put | Update) -> Item:
            if isinstance(write, Update) and write.keep_version:
                raise StoreUnavailable("away")
            return await super().write(write)

    store = Failing()
    await store.create_tables(JOBS)
    async with Outbox(store, publish) as outbox:
        await outbox.write(change(1), [outbox_message(1)])

    assert await ids(client) == ["job-1:1:changed"]
    assert await unsent(store) == [KEY]


async def test_a_later_write_sends_the_unsent_messages_of_earlier_writes(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    async with Outbox(store, Faulty(publish, ["before", "before"]), clock=clock) as outbox:
        await outbox.write(change(1), [outbox_message(1)])
        await outbox.write(change(2), [outbox_message(2)])

        assert await ids(client) == []

        await outbox.write(change(3), [outbox_message(3)])

    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed", "job-1:3:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 3}, 3)


async def test_the_messages_of_a_transaction_are_sent(store: Store, client: Client, publish: Publish) -> None:
    other = Key("acme", "quota")

    async with Outbox(store, publish) as outbox:
        carrier, beside = Put(JOBS, KEY, {"value": 1}, Absent()), Update(JOBS, other, add={"jobs": 1})
        await outbox.transact(carrier, [outbox_message(1)], [beside], token="submit-1")

    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 1}, 1)


async def test_a_refused_transaction_writes_and_publishes_nothing(
    store: Store, client: Client, publish: Publish
) -> None:
    other = Key("acme", "quota")
    await store.write(Put(JOBS, other, {"jobs": 1}, Absent()))
    beside = Put(JOBS, other, {"jobs": 2}, Absent())

    async with Outbox(store, publish) as outbox:
        with pytest.raises(TransactionCancelled) as refused:
            await outbox.transact(change(1), [outbox_message(1)], [beside], token="submit-1")

    assert [reason is None for reason in refused.value.reasons] == [True, False]
    assert await ids(client) == []
    assert await store.get(JOBS, KEY) is None


def test_a_write_that_would_lose_messages_is_rejected() -> None:
    with pytest.raises(InvalidItem):
        with_messages(Put(JOBS, KEY, {}, VersionIs(3)), [outbox_message(4)], now=0)
    with pytest.raises(InvalidItem):
        with_messages(Update(JOBS, KEY, keep_version=True), [outbox_message(4)], now=0)
