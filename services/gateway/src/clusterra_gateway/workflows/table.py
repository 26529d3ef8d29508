"""The table of workflows."""

from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

RUNS = Table("runs")
USE = TableUse(
    RUNS,
    "runs: their steps with scripts and environments, for 30 days",
    frozenset({"get", "put", "update", "delete", "query"}),
    items_expire=True,
)
