"""The relay: messages that a crash or an outage left behind are published, once and in order."""

import asyncio
import random

import pytest
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.client import Client
from clusterra_runtime.store import outbox as outbox_module
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.outbox import RELAY_AFTER_SECONDS, Outbox, Publish
from clusterra_runtime.store.outbox_item import OUTBOX, with_messages
from clusterra_runtime.store.store import Store, Table, Update

from .conftest import JOBS, KEY, Clock, Faulty, change, ids, outbox_message, unsent


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_the_relay_recovers_from_a_crash_around_the_publish(
    store: Store, client: Client, publish: Publish, clock: Clock, fault: str
) -> None:
    async with Outbox(store, Faulty(publish, [fault]), clock=clock) as crashed:
        item = await crashed.write(change(1), [outbox_message(1)])

    assert item == Item(KEY, {"value": 1}, 1)
    assert await unsent(store) == [KEY]

    async with Outbox(store, publish, clock=clock) as survivor:
        assert await survivor.relay_once(JOBS) == 0, "the writer may still send it"

        clock.later()

        assert await survivor.relay_once(JOBS) == 1
        assert await survivor.relay_once(JOBS) == 0

    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == item
    assert await unsent(store) == []


async def test_the_relay_recovers_from_a_crash_before_the_messages_are_removed(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    carrying = await store.write(with_messages(change(1), [outbox_message(1)], now=clock.now))
    await publish("event.acme.c1.job-1", b"1", {MESSAGE_ID: "job-1:1:changed"})

    assert "outbox" in carrying.attributes

    clock.later()
    async with Outbox(store, publish, clock=clock) as survivor:
        assert await survivor.relay_once(JOBS) == 1

    assert await ids(client) == ["job-1:1:changed"]
    assert await store.get(JOBS, KEY) == Item(KEY, {"value": 1}, 1)


async def test_writes_succeed_while_nats_is_away(
    store: Store, client: Client, publish: Publish, nats: NatsServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "PUBLISH_SECONDS", 0.5)
    loop = asyncio.get_running_loop()
    async with Outbox(store, publish, clock=clock) as outbox:
        await outbox.write(change(1), [outbox_message(1)])
        await nats.kill()
        started = loop.time()
        item = await outbox.write(change(2), [outbox_message(2)])

        assert loop.time() - started < outbox_module.PUBLISH_SECONDS + 5
        assert item == Item(KEY, {"value": 2}, 2)

        clock.later()

        assert await outbox.relay_once(JOBS) == 0

        await nats.restart()

        assert await client.wait_connected(10)

        async def relayed() -> bool:
            return await outbox.relay_once(JOBS) == 1

        await until(relayed, seconds=90, what="the relay's success")
        await outbox.write(change(3), [outbox_message(3)])

    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed", "job-1:3:changed"]
    assert await unsent(store) == []


async def test_an_invalid_entry_does_not_block_the_relay(
    store: Store, client: Client, publish: Publish, clock: Clock
) -> None:
    broken = with_messages(change(1), [outbox_message(1)], now=clock.now)

    assert isinstance(broken, Update)

    await store.write(Update(JOBS, Key("p", "broken"), set={**broken.set, "outbox": [{"subject": 1}]}))
    await store.write(broken)
    clock.later()
    async with Outbox(store, publish, clock=clock) as outbox:
        assert await outbox.relay_once(JOBS) == 1

    assert await ids(client) == ["job-1:1:changed"]
    assert await unsent(store) == [Key("p", "broken")]


async def test_the_relay_runs_until_cancelled(store: Store, client: Client, publish: Publish) -> None:
    # Written long ago, so that the relay, which uses the real clock, sends it.
    await store.write(with_messages(change(1), [outbox_message(1)], now=1_000_000.0))
    async with Outbox(store, publish) as outbox:
        missing = Table("missing", (OUTBOX,))
        relay = asyncio.create_task(outbox.relay(missing, JOBS))

        async def sent() -> bool:
            return await unsent(store) == []

        await until(sent, seconds=90, what="the first message")
        await store.write(with_messages(change(2), [outbox_message(2)], now=1_000_000.0))
        await until(sent, seconds=90, what="the second message")
        relay.cancel()

        with pytest.raises(asyncio.CancelledError):
            await relay

    assert await ids(client) == ["job-1:1:changed", "job-1:2:changed"]


@pytest.mark.parametrize("seed", range(3))
async def test_failing_writers_and_racing_relays_neither_lose_nor_repeat_nor_reorder_messages(
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
                    change(version, Key("acme", entity)),
                    [outbox_message(version, "a", entity), outbox_message(version, "b", entity)],
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
