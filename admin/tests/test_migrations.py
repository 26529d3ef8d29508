"""Migrations on an emulator of DynamoDB: old records, a kill in the middle, services at work, bad records."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest
from admin_command import admin
from clusterra_admin.migrations import fleet_states, runner
from clusterra_admin.migrations.migration import Migration
from clusterra_admin.migrations.registered import MIGRATIONS
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_key
from clusterra_gateway.accounts.keyspace import FORMS as ACCOUNTS_FORMS
from clusterra_lab.machine.process import start, until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Value
from clusterra_runtime.store.record_level import Level, read_level
from clusterra_runtime.store.store import Put, Store, Update
from clusterra_scaler.fleet_table import FLEETS, fleet_key
from clusterra_scaler.fleet_table import FORMS as FLEETS_FORMS
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_state, unpacked_state

FLEET_COUNT = 240


@pytest.fixture
async def store(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DynamoDBStore]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with DynamoDBStore(table_prefix=environment["CLUSTERRA_TABLE_PREFIX"]) as opened:
        await opened.create_tables(ACCOUNTS, FLEETS)
        yield opened


def ref(number: int) -> ClusterRef:
    return ClusterRef(tenant="acme", cluster=f"c{number}")


def state(number: int) -> FleetState:
    return FleetState(generation=number + 1, fence=7, decided_at=datetime(2026, 3, 1, tzinfo=UTC))


async def put_fleet(store: Store, number: int, stored: Value) -> None:
    """Writes a cluster and its fleet's record as earlier releases did."""
    await store.write(Put(ACCOUNTS, cluster_key(ref(number)), {"binding": "{}"}, Absent()))
    attributes = {"state": stored, "fence": 7, "generation": number + 1}
    await store.write(Put(FLEETS, fleet_key(ref(number).key), attributes, Absent()))


async def stored_state(store: Store, number: int) -> Value:
    item = await store.get(FLEETS, fleet_key(ref(number).key))
    assert item is not None
    return item.attributes["state"]


async def test_plain_states_are_compressed_once_and_nothing_else_changes(
    store: DynamoDBStore, environment: dict[str, str]
) -> None:
    await put_fleet(store, 0, state(0).model_dump_json())
    await put_fleet(store, 1, packed_state(state(1)))
    await store.write(Put(ACCOUNTS, cluster_key(ref(2)), {"binding": "{}"}, Absent()))
    planned = await admin("migrate", "plan", "--json", environment=environment, code=2)

    (found,) = planned.json["migrations"]
    assert (found["state"], found["looked_at"], found["old_form"]) == ("pending", 3, 1)
    assert isinstance(await stored_state(store, 0), str)
    assert await read_level(store, FLEETS) == Level()

    applied = await admin("migrate", "apply", environment=environment)

    assert "done now, 3 records, 1 in the old form" in applied.out
    assert unpacked_state(await stored_state(store, 0)) == state(0)
    assert isinstance(await stored_state(store, 0), bytes)
    assert await read_level(store, FLEETS) == Level(level=1, readable_from=0)

    items = [await store.get(FLEETS, fleet_key(ref(number).key)) for number in (0, 1)]
    again = await admin("migrate", "apply", environment=environment)

    assert "done before" in again.out
    assert [await store.get(FLEETS, fleet_key(ref(number).key)) for number in (0, 1)] == items
    assert (await admin("migrate", "plan", environment=environment)).code == 0


async def test_a_killed_migration_goes_on_where_it_ended(
    store: DynamoDBStore, environment: dict[str, str], tmp_path: Path
) -> None:
    for number in range(FLEET_COUNT):
        await put_fleet(store, number, state(number).model_dump_json())
    argv = [sys.executable, "-m", "clusterra_admin", "migrate", "apply", "--per-second", "100"]
    process = await start("migrate", argv, log=tmp_path / "migrate.log", env=environment)

    def half_done() -> bool:
        return "100 looked at" in process.log.read_text()

    await until(half_done, seconds=60, what="a hundred records", every=0.02, process=process)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    kinds = [type(await stored_state(store, number)) for number in range(FLEET_COUNT)]

    assert {str, bytes} == set(kinds)
    assert (await read_level(store, FLEETS)).level == 0

    applied = await admin("migrate", "apply", "--per-second", "5000", "--json", environment=environment)

    (found,) = applied.json["migrations"]
    assert found["state"] == "done now"
    assert found["old_form"] == kinds.count(str)
    for number in range(FLEET_COUNT):
        assert unpacked_state(await stored_state(store, number)) == state(number)


async def test_a_write_of_a_service_in_between_is_never_lost(store: DynamoDBStore) -> None:
    """Each record is written by a scaler after the migration read it and before it writes."""
    for number in range(4):
        await put_fleet(store, number, state(number).model_dump_json())
    newer = FleetState(generation=99, fence=8, decided_at=datetime(2026, 3, 2, tzinfo=UTC))
    interfered: set[str] = set()

    class Interfering(DynamoDBStore):
        async def write(self, write: Put | Update) -> object:  # type: ignore[override]
            if write.table == FLEETS and write.key.sk == "fleet" and write.key.pk not in interfered:
                interfered.add(write.key.pk)
                await store.write(Update(FLEETS, write.key, set={"state": packed_state(newer), "generation": 99}))
            return await super().write(write)

    async with Interfering(table_prefix=os.environ["CLUSTERRA_TABLE_PREFIX"]) as racing:
        (report,) = await runner.apply(racing, MIGRATIONS, per_second=5000, progress=lambda _report: None)

    assert len(interfered) == 4
    assert report.state == "done now"
    for number in range(4):
        assert unpacked_state(await stored_state(store, number)) == newer


async def test_one_unreadable_record_is_named_and_the_others_are_changed(
    store: DynamoDBStore, environment: dict[str, str]
) -> None:
    await put_fleet(store, 0, '{"generation": "a-secret"}')
    await put_fleet(store, 1, state(1).model_dump_json())

    applied = await admin("migrate", "apply", environment=environment, code=2)

    assert "unreadable: acme.c0 fleet: its state cannot be read (ValidationError)" in applied.out
    assert "a-secret" not in applied.out + applied.err
    assert isinstance(await stored_state(store, 1), bytes)
    assert await stored_state(store, 0) == '{"generation": "a-secret"}'
    assert (await read_level(store, FLEETS)).level == 1


async def test_two_operators_at_once_do_no_harm(store: DynamoDBStore) -> None:
    for number in range(20):
        await put_fleet(store, number, state(number).model_dump_json())

    both = await asyncio.gather(
        *(runner.apply(store, MIGRATIONS, per_second=5000, progress=lambda _report: None) for _ in range(2))
    )

    assert sum(report.changed for reports in both for report in reports) == 20
    assert await read_level(store, FLEETS) == Level(level=1)


async def test_apply_without_tables_says_how_to_make_them(environment: dict[str, str]) -> None:
    answer = await admin("migrate", "apply", environment=environment, code=1)
    assert "does not exist: run `clusterra-admin tables apply`" in answer.err


def test_the_migrations_of_each_table_are_numbered_without_a_gap() -> None:
    ordered = sorted(MIGRATIONS, key=lambda migration: migration.table.name)
    for _, group in groupby(ordered, key=lambda migration: migration.table.name):
        migrations = list(group)
        assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))


def test_services_know_all_migrations_of_their_tables() -> None:
    for forms in (FLEETS_FORMS, ACCOUNTS_FORMS):
        numbers = [migration.number for migration in MIGRATIONS if migration.table == forms.table]
        assert forms.knows == max(numbers, default=0)
        assert forms.needs <= forms.knows


def test_a_migration_must_leave_what_the_previous_release_can_read() -> None:
    with pytest.raises(ValueError, match="release before it can read"):
        Migration(FLEETS, 2, "drop the old form", 2, fleet_states._keys, fleet_states._change)
