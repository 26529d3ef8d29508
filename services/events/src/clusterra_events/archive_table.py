"""The table of the archive."""

from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

ARCHIVE = Table("events")
USE = TableUse(
    ARCHIVE,
    "every event, by time, entity and kind",
    frozenset({"put", "put_all", "query", "delete"}),
    items_expire=True,
)
