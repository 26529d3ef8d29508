"""What the gateway does with the table of webhooks. The events service reads it, to deliver."""

from clusterra_runtime.store.table_use import TableUse
from clusterra_runtime.store.webhook_records import HOLDS, WEBHOOKS

USE = TableUse(
    WEBHOOKS,
    HOLDS,
    frozenset({"get", "put", "update", "delete", "query", "query_index"}),
    items_expire=True,
)
