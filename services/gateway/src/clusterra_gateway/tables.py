"""The gateway's tables, and what it does with each."""

from clusterra_runtime.store.record_level import RecordForms
from clusterra_runtime.store.table_use import TableUse

from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_gateway.idempotency.key import IDEMPOTENCY
from clusterra_gateway.staging.staging_records import STAGING
from clusterra_gateway.templates.records import TEMPLATES
from clusterra_gateway.workflows.run_records import RUNS

TABLES = (
    TableUse(
        ACCOUNTS,
        "tenants, people, sessions signed out, API tokens, sign-ins of programs, clusters and agent keys",
        frozenset({"get", "put", "update", "delete", "query", "query_index", "scan"}),
        items_expire=True,
    ),
    TableUse(
        IDEMPOTENCY,
        "the claims and answers of submits that carried an Idempotency-Key, for 24 h",
        frozenset({"put", "update", "delete", "scan"}),
        items_expire=True,
    ),
    TableUse(
        TEMPLATES,
        "templates of tenants with their versions, and schedules",
        frozenset({"get", "put", "update", "delete", "query", "query_index"}),
        items_expire=True,
    ),
    TableUse(
        RUNS,
        "runs: their steps with scripts and environments, for 30 days",
        frozenset({"get", "put", "update", "delete", "query"}),
        items_expire=True,
    ),
    TableUse(
        STAGING,
        "which files are copied for jobs, and how far that is, for 90 days",
        frozenset({"get", "put", "update", "delete", "query"}),
        items_expire=True,
    ),
)

FORMS = RecordForms(ACCOUNTS, needs=0, knows=0)
"""The migrations of `accounts` that this release knows and needs (`clusterra_admin.migrations`)."""
