"""Fences are counted in the record: a NATS server that comes back without its last writes gives no lower ones."""

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.lease_terms import Fences
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store import fence_counter
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.fence_counter import FenceCounter
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, Store, StoreUnavailable, Table, Update

from .lease_replicas import Register, Replica, shared

RECORDS = Table("records")


@pytest.fixture
async def store(aws: None) -> AsyncIterator[Store]:
    async with DynamoDBStore(table_prefix=f"{uuid.uuid4()}-") as opened:
        await opened.create_tables(RECORDS)
        yield opened


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    await connection.jetstream().create_key_value(bucket="leases", history=1, direct=True)
    yield connection
    await bus.close(connection)


async def leased_once(client: Client, register: Register, fences: Fences | None) -> int:
    """Acquire the only shard as another replica, give it back, and return the fence."""
    replica = Replica(client, f"replica-{len(register.holdings)}", register, shards=1, fences=fences)
    await shared([replica], shards=1)
    await replica.stop()
    return register.holdings[-1].fence


@pytest.mark.parametrize("counted", [True, False])
async def test_a_server_that_was_rolled_back_gives_no_lower_fence(
    nats: NatsServer, client: Client, store: Store, tmp_path: Path, counted: bool
) -> None:
    register = Register()
    fences = FenceCounter(store, RECORDS, "scaler") if counted else None
    before = await leased_once(client, register, fences)
    await nats.kill()
    shutil.copytree(tmp_path / "store", tmp_path / "older")
    await nats.restart()
    assert await client.wait_connected(10)
    for _ in range(50):
        await client.jetstream().publish("$KV.leases.other", b"")
    latest = await leased_once(client, register, fences)

    await nats.kill()
    shutil.rmtree(tmp_path / "store")
    shutil.copytree(tmp_path / "older", tmp_path / "store")
    await nats.restart()
    assert await client.wait_connected(10)
    after = await leased_once(client, register, fences)

    assert before < latest
    # Without a counter this shows that the server was rolled back.
    assert (after > latest) == counted
    assert after < 2**53


async def test_replicas_that_count_at_once_get_different_fences(store: Store) -> None:
    counters = [FenceCounter(store, RECORDS, "scaler") for _ in range(4)]

    async def count(counter: FenceCounter) -> list[int]:
        return [await counter.next_fence(3, floor=1_790_000_000_000_000) for _ in range(5)]

    counted = await asyncio.gather(*map(count, counters))

    assert all(each == sorted(each) for each in counted)
    fences = [fence for each in counted for fence in each]
    assert sorted(fences) == list(range(1_790_000_000_000_000, 1_790_000_000_000_020))


async def test_fences_are_at_least_the_floor_and_above_those_found_in_records(store: Store) -> None:
    counter = FenceCounter(store, RECORDS, "scaler")

    assert await counter.next_fence(1, floor=100) == 100
    assert await counter.next_fence(1, floor=50) == 101
    assert await counter.next_fence(1, floor=200) == 200
    await counter.raise_to(1, 150)
    assert await counter.next_fence(1, floor=0) == 201
    await counter.raise_to(1, 300)
    assert await counter.next_fence(1, floor=0) == 301
    assert await counter.next_fence(2, floor=7) == 7, "another shard"


async def test_a_lease_waits_for_its_fence_and_is_renewed_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(MemoryStore):
        away = True
        asked = 0

        async def get(self, table: Table, key: Key) -> Item | None:
            self.asked += 1
            if self.away:
                raise StoreUnavailable("away")
            return await super().get(table, key)

        async def write(self, write: Put | Update) -> Item:
            if self.away:
                raise StoreUnavailable("away")
            return await super().write(write)

    monkeypatch.setattr(fence_counter, "FIRST_PAUSE_SECONDS", 0.05)
    store = Away()
    await store.create_tables(RECORDS)
    register = Register()
    counter = FenceCounter(store, RECORDS, "scaler")
    replica = Replica(client, "a", register, shards=1, fences=counter)
    await until(lambda: store.asked > 3, seconds=90, what="some attempts")

    assert replica.held == set()
    assert register.holdings == []

    store.away = False
    await shared([replica], shards=1)
    await replica.stop()
    assert len(register.holdings) == 1
