"""The IAM policy of a service: the actions that its operations take, on its own tables only."""

from collections.abc import Iterable
from typing import Any

from clusterra_runtime.store.table_use import ACTIONS, READINESS_ACTION

from clusterra_admin.tables.declared import TABLES, USES

ADMIN = "admin"
_ADMIN_TABLE = (
    *ACTIONS.values(),
    READINESS_ACTION,
    "dynamodb:BatchWriteItem",
    "dynamodb:CreateTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:Scan",
    "dynamodb:UpdateTable",
    "dynamodb:UpdateTimeToLive",
)
"""What `clusterra-admin` does: tables, provisioning, migrations, backup and restore."""

SERVICES = (*USES, ADMIN)
"""Everyone who has a policy."""


def policy(service: str, *, prefix: str, region: str = "*", account: str = "*") -> dict[str, Any]:
    """An IAM policy document. `prefix` is that of the installation's tables. Raises KeyError for an unknown service."""
    place = f"arn:aws:dynamodb:{region}:{account}:table/{prefix}"
    if service == ADMIN:
        tables = [f"{place}{table.name}" for table in TABLES]
        return _document([_statement("Tables", _ADMIN_TABLE, [*tables, *(f"{table}/index/*" for table in tables)])])
    statements = []
    for use in USES[service]:
        name = use.table.name.title().replace("-", "")
        statements.append(_statement(name, use.actions(), [f"{place}{use.table.name}"]))
        indexes = [f"{place}{use.table.name}/index/{index.name}" for index in use.table.indexes]
        # Whoever only reads a table may read none of its indexes, and a statement must have an action.
        if indexes and use.index_actions():
            statements.append(_statement(f"{name}Indexes", use.index_actions(), indexes))
    return _document(statements)


def _document(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(name: str, actions: Iterable[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": name, "Effect": "Allow", "Action": sorted(set(actions)), "Resource": resources}
