"""The table of templates and schedules."""

from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.store import Index, Table
from clusterra_runtime.store.table_use import TableUse

DUE = Index("due", partition="due_partition", sort="next_tick")
"""The schedules that are not deleted, by their next tick."""
TEMPLATES = Table("templates", indexes=(OUTBOX, DUE))
USE = TableUse(
    TEMPLATES,
    "templates of tenants with their versions, and schedules",
    frozenset({"get", "put", "update", "delete", "query", "query_index"}),
    items_expire=True,
)
