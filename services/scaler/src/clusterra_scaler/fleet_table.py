"""The table of fleets: its keys, and the forms of its records."""

from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.record_level import RecordForms
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

FLEETS = Table("fleets", indexes=(OUTBOX,))
TABLES = (
    TableUse(
        FLEETS,
        "each cluster's fleet: desired state, workers and run times; the fences of the shards",
        frozenset({"get", "update", "delete", "query_index"}),
    ),
)
"""The scaler's tables, and what it does with each."""
FORMS = RecordForms(FLEETS, needs=0, knows=1)
"""The migrations of `fleets` that this release knows and needs (`clusterra_admin.migrations`)."""


def fleet_key(cluster_key: str) -> Key:
    """The key of the state of the cluster with this `ClusterRef.key`."""
    return Key(cluster_key, "fleet")
