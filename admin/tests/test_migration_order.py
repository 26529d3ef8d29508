"""A migration gives releases that cannot read its form the time to stop, before there is any record in that form."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from clusterra_admin.migrations import runner
from clusterra_admin.migrations.migration import Migration
from clusterra_runtime.store import record_level
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.record_level import RecordForms, RecordLevels, RecordsDoNotFit
from clusterra_runtime.store.store import Put, Store, Table

TABLE = Table("fleets")
RECORD = Key("acme", "fleet")


async def keys(_store: Store) -> AsyncIterator[Key]:
    yield RECORD


MIGRATION = Migration(TABLE, 2, "to the new form", 1, keys, lambda _item: {"form": "new"})


async def form(store: Store) -> object:
    item = await store.get(TABLE, RECORD)
    assert item is not None
    return item.attributes["form"]


async def test_a_release_that_cannot_read_the_new_form_stops_before_there_is_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_level, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(runner, "STOP_SECONDS", 1.0)
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        await store.write(Put(TABLE, RECORD, {"form": "old"}, Absent()))
        levels = RecordLevels(store, RecordForms(TABLE, needs=0, knows=0))
        await levels.wait()
        running = asyncio.create_task(levels.watch())
        applying = asyncio.create_task(runner.apply(store, [MIGRATION], per_second=1000, progress=lambda _report: None))

        with pytest.raises(RecordsDoNotFit, match="only releases that know migration 1"):
            await asyncio.wait_for(running, 90)
        assert await form(store) == "old"

        await applying
        assert await form(store) == "new"


async def test_a_migration_that_every_release_can_read_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STOP_SECONDS", 3600.0)
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        await store.write(Put(TABLE, RECORD, {"form": "old"}, Absent()))
        migration = replace(MIGRATION, readable_from=0)

        await asyncio.wait_for(runner.apply(store, [migration], per_second=1000, progress=lambda _report: None), 90)

        assert await form(store) == "new"
