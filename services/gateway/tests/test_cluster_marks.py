"""Marks of what a gateway has to go on with: one bad mark is one bad mark."""

from collections.abc import Callable

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.staging.table import STAGING
from clusterra_gateway.workflows.table import RUNS
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put, Store, Table
from gateway_world import no_message

REF = ClusterRef(tenant="acme", cluster="main")


@pytest.mark.parametrize(
    ("table", "records"),
    [(STAGING, StagingRecords), (RUNS, lambda store: WorkflowRecords(store, Outbox(store, no_message)))],
    ids=["staging", "runs"],
)
async def test_a_mark_that_names_nothing_stops_no_other(
    table: Table, records: Callable[[Store], StagingRecords | WorkflowRecords]
) -> None:
    async with MemoryStore() as memory:
        store: Store = memory
        await memory.create_tables(table)
        for mark in ("acme main#1", "acme.main#2", "3"):
            await memory.write(Put(table, Key("unfinished", mark), {}, Absent()))

        found = await records(store).unfinished()

    assert found == ((REF, "2"),)
