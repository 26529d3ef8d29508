"""`clusterra-admin ledger rebuild` on an emulator of DynamoDB: the ledger is made again from the archive."""

import pytest
from admin_command import admin, admin_process
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import WorkerFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_events.archive import Archive
from clusterra_events.archive_table import ARCHIVE
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.retention import Retention
from clusterra_lab.parts.aws import Aws
from clusterra_runtime.store.dynamodb import DynamoDBStore
from own_tables import create_tables

MAIN = ClusterRef(tenant="acme", cluster="main")


async def test_the_ledger_takes_archived_events_again(
    emulator: Aws, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    prefix, at = environment["CLUSTERRA_TABLE_PREFIX"], now()
    await create_tables(emulator, prefix, ARCHIVE, LEDGER)
    started = WorkerFact(kind="worker.started", worker="compute-xs-1", shape="compute-xs", started_at=at)
    event = event_of("edge-agent", MAIN, started, version="1", time=at)
    async with DynamoDBStore(table_prefix=prefix) as store:
        await Archive(store, ARCHIVE, retention=Retention(3600)).keep(Subject("event", MAIN, event.kind), event, 1)

        taken = await admin_process("ledger", "rebuild", "acme", "main", environment=environment)
        once = (await store.scan(LEDGER, limit=100)).items
        again = await admin("ledger", "rebuild", "acme", "main", "--json", environment=environment)
        twice = (await store.scan(LEDGER, limit=100)).items

    assert taken.out == "1 events taken\n"
    assert again.json == {"events": 1}
    assert once
    assert {item.key for item in twice} == {item.key for item in once}


async def test_without_tables_the_command_says_how_to_make_them(environment: dict[str, str]) -> None:
    answer = await admin("ledger", "rebuild", "acme", "main", environment=environment, code=1)

    assert "run `clusterra-admin tables apply`" in answer.err
