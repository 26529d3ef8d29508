"""The level of a table's records: what fits, what does not, and what a service is told."""

import asyncio

import pytest
from clusterra_runtime.store import record_level
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.record_level import LEVEL, Level, RecordForms, RecordLevels, RecordsDoNotFit
from clusterra_runtime.store.store import Put, Table, Update

TABLE = Table("fleets")
FORMS = RecordForms(TABLE, needs=2, knows=4)


@pytest.mark.parametrize(
    ("level", "problem"),
    [
        (Level(level=1), "run `clusterra-admin migrate apply`"),
        (Level(level=2), ""),
        (Level(level=4, readable_from=3), ""),
        # One release ahead: it migrated only to what this release reads.
        (Level(level=5, readable_from=4), ""),
        (Level(level=6, readable_from=5), "run a newer release"),
    ],
)
def test_a_release_reads_the_levels_within_its_window(level: Level, problem: str) -> None:
    found = FORMS.problem(level)

    assert problem in found
    assert bool(problem) == bool(found)


async def test_a_service_waits_until_its_records_are_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_level, "POLL_SECONDS", 0.01)
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        levels = RecordLevels(store, FORMS)
        waiting = asyncio.create_task(levels.wait())
        await asyncio.wait([waiting], timeout=0.1)

        assert not waiting.done()
        assert "from level 2 on" in levels.problem

        await store.write(Put(TABLE, LEVEL, {"level": 3, "readable_from": 2}, Absent()))
        await asyncio.wait_for(waiting, 90)

        assert levels.problem == ""


async def test_a_running_service_stops_at_a_migration_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_level, "WATCH_SECONDS", 0.01)
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        await store.write(Put(TABLE, LEVEL, {"level": 3}, Absent()))
        levels = RecordLevels(store, FORMS)
        await levels.wait()
        watching = asyncio.create_task(levels.watch())

        # An item that is no level is no opinion: the last one stays.
        await store.write(Update(TABLE, LEVEL, set={"level": "many"}))
        await asyncio.sleep(0.05)
        assert not watching.done()

        await store.write(Update(TABLE, LEVEL, set={"level": 9, "readable_from": 8}))

        with pytest.raises(RecordsDoNotFit, match="only releases that know migration 8"):
            await asyncio.wait_for(watching, 90)
        assert "only releases that know migration 8" in levels.problem


async def test_a_table_without_a_level_is_at_level_0() -> None:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        levels = RecordLevels(store, RecordForms(TABLE, needs=0, knows=0))
        await asyncio.wait_for(levels.wait(), 90)
