"""A service waits for its tables, and for a store that does not answer."""

import asyncio
from typing import override

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime.store import required_tables
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.required_tables import RequiredTables
from clusterra_runtime.store.store import StoreUnavailable, Table

JOBS, USERS = Table("jobs"), Table("users")


class _Away(MemoryStore):
    away = True

    @override
    async def missing_tables(self, *tables: Table) -> tuple[str, ...]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().missing_tables(*tables)


async def test_wait_ends_when_the_last_table_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required_tables, "POLL_SECONDS", 0.01)
    async with _Away() as store:
        tables = RequiredTables(store, JOBS, USERS)
        waiting = asyncio.create_task(tables.wait())
        await asyncio.sleep(0)

        assert not tables.reachable

        store.away = False
        await store.create_tables(JOBS)
        await until(lambda: tables.reachable, seconds=30, what="an answer")

        assert not tables.exist

        await store.create_tables(USERS)
        await asyncio.wait_for(waiting, 90)

        assert tables.exist
        assert tables.reachable
