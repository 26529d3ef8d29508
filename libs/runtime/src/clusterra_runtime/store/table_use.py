"""What a service does with its tables: declared by the service, the source of its rights in AWS."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from clusterra_runtime.store.store import Table

type Operation = Literal["get", "put", "put_all", "update", "delete", "query", "query_index", "scan"]
"""An operation of the store. A transaction needs no right of its own, only those of its writes."""

ACTIONS: dict[Operation, str] = {
    "get": "dynamodb:GetItem",
    "put": "dynamodb:PutItem",
    "put_all": "dynamodb:BatchWriteItem",
    "update": "dynamodb:UpdateItem",
    "delete": "dynamodb:DeleteItem",
    "query": "dynamodb:Query",
    "query_index": "dynamodb:Query",
    "scan": "dynamodb:Scan",
}
"""The action of DynamoDB that each operation of `DynamoDBStore` takes."""
READINESS_ACTION = "dynamodb:DescribeTable"
"""The action with which a service sees whether its tables exist."""


@dataclass(frozen=True, slots=True)
class TableUse:
    """The operations of one service on one of its tables."""

    table: Table
    holds: str
    """What the table holds, in a few words."""
    operations: frozenset[Operation]
    items_expire: bool = False
    """Whether items have an expiry. Then a write may have to delete an expired item first, which DynamoDB still has.
    Transactions leave items that expire."""

    def actions(self) -> frozenset[str]:
        """The actions on the table itself."""
        actions = {ACTIONS[operation] for operation in self.operations - {"query_index"}} | {READINESS_ACTION}
        if self.items_expire and self.operations & {"put", "update"}:
            actions.add(ACTIONS["delete"])
        return frozenset(actions)

    def index_actions(self) -> frozenset[str]:
        """The actions on the table's indexes."""
        return frozenset({ACTIONS["query_index"]} if "query_index" in self.operations else ())


def tables_of(uses: Iterable[TableUse]) -> tuple[Table, ...]:
    """The tables of some uses."""
    return tuple(use.table for use in uses)
