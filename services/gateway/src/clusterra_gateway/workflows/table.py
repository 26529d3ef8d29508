"""The table of workflows."""

from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

RUNS = Table("runs", indexes=(OUTBOX,))
USE = TableUse(
    RUNS,
    "runs: their steps with scripts and environments, for 30 days",
    frozenset({"get", "put", "update", "delete", "query", "query_index"}),
    items_expire=True,
)
