"""The table of templates and schedules."""

from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

TEMPLATES = Table("templates", indexes=(OUTBOX,))
USE = TableUse(
    TEMPLATES,
    "templates of tenants with their versions, and schedules",
    frozenset({"get", "put", "update", "delete", "query", "query_index"}),
    items_expire=True,
)
