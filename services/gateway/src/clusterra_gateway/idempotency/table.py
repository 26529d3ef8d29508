"""The table of idempotency keys."""

from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

IDEMPOTENCY = Table("idempotency")
USE = TableUse(
    IDEMPOTENCY,
    "the claims and answers of requests that carried an Idempotency-Key, for 24 h",
    frozenset({"put", "update", "delete", "scan"}),
    items_expire=True,
)
