"""The table of stagings."""

from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

STAGING = Table("staging")
USE = TableUse(
    STAGING,
    "which files are copied for jobs, and how far that is, for 90 days",
    frozenset({"get", "put", "update", "delete", "query"}),
    items_expire=True,
)
