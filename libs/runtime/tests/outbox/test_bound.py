"""A long outage: an item keeps a bounded number of unsent messages, and can still be written."""

import asyncio
import os

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.client import Client
from clusterra_runtime.store import outbox_item
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.outbox import SENT, Outbox, Publish
from clusterra_runtime.store.outbox_item import (
    MOST_BYTES,
    MOST_MESSAGES,
    OutboxMessage,
    newest_messages,
    without_subject,
)
from clusterra_runtime.store.store import Store
from hypothesis import given
from hypothesis import strategies as st

from .conftest import JOBS, KEY, Clock, Faulty, change, ids, outbox_message, unsent


def dropped() -> float:
    return float(SENT.labels("writer", "dropped")._value.get())


@given(st.lists(st.integers(0, MOST_BYTES), max_size=2 * MOST_MESSAGES))
def test_the_newest_messages_are_kept(sizes: list[int]) -> None:
    messages = [OutboxMessage(event_id=f"{n}", subject="s", body=bytes(size)) for n, size in enumerate(sizes)]

    kept = newest_messages(messages)

    assert list(kept) == messages[len(messages) - len(kept) :]
    assert len(kept) <= MOST_MESSAGES
    assert sum(len(each.body) for each in kept) <= MOST_BYTES
    assert newest_messages(kept) == kept
    assert kept or not messages, "the newest one is always kept"


def test_the_newest_message_is_dropped_only_where_it_does_not_fit_alone() -> None:
    small, large, huge = (
        OutboxMessage(event_id=f"{size}", subject="s", body=bytes(size)) for size in (1, MOST_BYTES, MOST_BYTES + 1)
    )

    assert newest_messages([small, large]) == (large,)
    assert newest_messages([large, small]) == (small,)
    assert newest_messages([small, huge]) == ()


async def test_the_oldest_messages_are_dropped_in_a_long_outage(
    store: Store, client: Client, publish: Publish, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_item, "MOST_MESSAGES", 6)
    before = dropped()
    async with Outbox(store, Faulty(publish, ["before"] * 7), clock=clock) as outbox:
        for version in range(1, 8):
            await outbox.write(change(version), [outbox_message(version)])

        assert dropped() - before == 4

        await outbox.write(change(8), [outbox_message(8)])

    assert await ids(client) == [f"job-1:{version}:changed" for version in (5, 6, 7, 8)]
    assert await unsent(store) == []


async def test_a_write_happens_without_the_messages_for_which_its_item_has_no_room(
    store: Store, client: Client, publish: Publish
) -> None:
    before = dropped()
    large = outbox_message(1).model_copy(update={"body": os.urandom(399 * 1024)})
    async with Outbox(store, publish) as outbox:
        item = await outbox.write_first(change(1), [large, large])

    assert item == Item(KEY, {"value": 1}, 1)
    assert await store.get(JOBS, KEY) == item
    assert dropped() - before == 2


async def test_messages_that_are_sent_afterwards_keep_their_order(
    store: Store, client: Client, publish: Publish
) -> None:
    gate = asyncio.Event()
    attempts = 0

    async def slow(*message: object) -> None:
        nonlocal attempts
        attempts += 1
        await gate.wait()
        await publish(*message)  # type: ignore[arg-type]

    async with Outbox(store, slow) as outbox:
        for version in range(1, 6):
            await outbox.write_first(change(version), [outbox_message(version)])

        assert attempts <= 1, "one sending of an item at a time"

        gate.set()

        async def sent() -> bool:
            return await unsent(store) == []

        await until(sent, seconds=90, what="all messages")

    assert await ids(client) == [f"job-1:{version}:changed" for version in range(1, 6)]


def test_messages_on_a_subject_are_superseded() -> None:
    item = {"outbox": [outbox_message(1).model_dump(), outbox_message(1, entity="job-2").model_dump()]}

    assert without_subject(item, "event.acme.c1.job-2") == {"outbox": [outbox_message(1).model_dump()]}
    assert without_subject(item, "event.acme.c1.job-3") == {}
    assert without_subject({}, "event.acme.c1.job-1") == {}
    assert without_subject({"outbox": [{"subject": 1}]}, "event.acme.c1.job-1") == {}
