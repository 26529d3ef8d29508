"""One list of all tables, made from what each service declares."""

from collections.abc import Mapping

from clusterra_events.tables import TABLES as EVENTS
from clusterra_gateway.tables import TABLES as GATEWAY
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse
from clusterra_scaler.fleet_table import TABLES as SCALER

USES: Mapping[str, tuple[TableUse, ...]] = {"gateway": GATEWAY, "scaler": SCALER, "events": EVENTS}
"""Service -> its tables. The proxy and the edge-agent have none."""

TABLES: tuple[Table, ...] = tuple({use.table.name: use.table for uses in USES.values() for use in uses}.values())
"""Every table, once. Each is written by one service; another may read it."""
