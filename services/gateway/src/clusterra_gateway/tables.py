"""The gateway's tables, and what it does with each. `clusterra-admin` reads them, so this module loads no handlers."""

from clusterra_gateway.accounts import keyspace
from clusterra_gateway.idempotency import key
from clusterra_gateway.staging import staging_records
from clusterra_gateway.templates import records
from clusterra_gateway.workflows import workflow_records

TABLES = (keyspace.USE, key.USE, records.USE, workflow_records.USE, staging_records.USE)
