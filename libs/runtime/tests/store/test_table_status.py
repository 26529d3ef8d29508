"""Which states of a table and its indexes let a service start. An emulator passes through them too quickly to see."""

from typing import Any, cast

import pytest
from clusterra_runtime.store.dynamodb_client import Client
from clusterra_runtime.store.dynamodb_tables import is_usable, table_differences
from clusterra_runtime.store.store import Index, Table

TABLE = Table("jobs", indexes=(Index("by-user", "user", "time"),))


class Described:
    """Stands in for the client: it answers what DynamoDB answers about a table in the given states."""

    def __init__(self, table: str, **indexes: str) -> None:
        self._answers: dict[str, Any] = {
            "describe_table": {
                "Table": {
                    "TableStatus": table,
                    "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"},
                        {"AttributeName": "sk", "KeyType": "RANGE"},
                    ],
                    "GlobalSecondaryIndexes": [
                        {"IndexName": name.replace("_", "-"), "IndexStatus": status} for name, status in indexes.items()
                    ],
                }
            },
            "describe_time_to_live": {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}},
        }

    async def call(self, operation: str, **_: object) -> dict[str, Any]:
        return cast("dict[str, Any]", self._answers[operation])


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        (Described("ACTIVE", by_user="ACTIVE"), ""),
        (Described("UPDATING", by_user="ACTIVE"), ""),
        (Described("UPDATING", by_user="UPDATING"), ""),
        (Described("UPDATING", by_user="ACTIVE", by_next_release="CREATING"), ""),
        (Described("ACTIVE", by_user="ACTIVE", by_former_release="DELETING"), ""),
        (Described("CREATING", by_user="CREATING"), "is not active yet"),
        (Described("UPDATING", by_user="CREATING"), "is not active yet"),
        (Described("ACTIVE", by_user="DELETING"), "is not active yet"),
        (Described("INACCESSIBLE_ENCRYPTION_CREDENTIALS", by_user="ACTIVE"), "is not active yet"),
        (Described("ACTIVE", by_next_release="ACTIVE"), "lacks the index by-user"),
    ],
)
async def test_a_table_is_usable_while_dynamodb_serves_it_and_its_declared_indexes(
    described: Described, problem: str
) -> None:
    client = cast("Client", described)

    assert await is_usable(client, TABLE, "jobs") == (not problem)
    assert await table_differences(client, TABLE, "jobs") == ([problem] if problem else [])
