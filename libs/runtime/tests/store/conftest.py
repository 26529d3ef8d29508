"""Both adapters of the store, with two tables and a clock that tests can set."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Index, Put, Store, Table

BY_STATE = Index("by-state", "state", "since")
JOBS = Table("jobs", (BY_STATE,))
QUOTAS = Table("quotas")
KEY = Key("acme/c1", "job#1")
NOW = 1_800_000_000


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "dynamodb"])
def adapter(request: pytest.FixtureRequest, clock: Clock) -> Store:
    if request.param == "memory":
        return MemoryStore(clock=clock)
    request.getfixturevalue("aws")
    return DynamoDBStore(table_prefix=f"{uuid.uuid4()}-", clock=clock)


@pytest.fixture
async def store(adapter: Store) -> AsyncIterator[Store]:
    async with adapter as opened:
        await opened.create_tables(JOBS, QUOTAS)
        yield opened


async def put(store: Store, key: Key = KEY, expires_at: int | None = None, **attributes: Any) -> Item:
    return await store.write(Put(JOBS, key, attributes, Absent(), expires_at))
