"""The gateway's tables, and what it does with each. `clusterra-admin` reads them, so this module loads no handlers."""

from clusterra_gateway.accounts import keyspace
from clusterra_gateway.idempotency import table as idempotency
from clusterra_gateway.staging import table as staging
from clusterra_gateway.templates import table as templates
from clusterra_gateway.webhooks import table as webhooks
from clusterra_gateway.workflows import table as workflows

TABLES = (keyspace.USE, idempotency.USE, templates.USE, workflows.USE, staging.USE, webhooks.USE)
