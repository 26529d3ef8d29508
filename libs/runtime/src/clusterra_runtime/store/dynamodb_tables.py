"""Creation of DynamoDB tables: keys, expiry and indexes."""

import asyncio
from typing import Any

from clusterra_runtime.store.dynamodb_client import Client
from clusterra_runtime.store.store import Index, StoreError, Table, TableMissing

READY_SECONDS = 120.0
_POLL_SECONDS = 0.1


async def create_table(client: Client, table: Table, name: str) -> None:
    """Create a table unless it exists, and return when it can be used.

    Raises StoreError for an existing table that lacks an index.
    """
    if await _description(client, name) is None:
        try:
            await client.call("create_table", **_definition(table, name))
        except StoreError:
            if await _description(client, name) is None:
                raise  # Otherwise another replica created it in between.
    description = await _active_description(client, name)
    existing = {index["IndexName"] for index in description.get("GlobalSecondaryIndexes", [])}
    if missing := {index.name for index in table.indexes} - existing:
        raise StoreError(f"table {name} lacks the indexes {sorted(missing)}: add them, or drop the table")
    await _enable_expiry(client, name)


def _definition(table: Table, name: str) -> dict[str, Any]:
    names = {"pk", "sk"} | {attribute for index in table.indexes for attribute in (index.partition, index.sort)}
    definition: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _keys("pk", "sk"),
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in sorted(names)],
    }
    if table.indexes:
        definition["GlobalSecondaryIndexes"] = [_index(index) for index in table.indexes]
    return definition


def _index(index: Index) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _keys(index.partition, index.sort),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


async def _description(client: Client, name: str) -> dict[str, Any] | None:
    try:
        answer = await client.call("describe_table", TableName=name)
    except TableMissing:
        return None
    table: dict[str, Any] = answer["Table"]
    return table


async def _active_description(client: Client, name: str) -> dict[str, Any]:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            description = await _description(client, name)
            if description is not None and _is_active(description):
                return description
            await asyncio.sleep(_POLL_SECONDS)


def _is_active(description: dict[str, Any]) -> bool:
    indexes = description.get("GlobalSecondaryIndexes", [])
    return {description["TableStatus"], *(index["IndexStatus"] for index in indexes)} == {"ACTIVE"}


async def _enable_expiry(client: Client, name: str) -> None:
    answer = await client.call("describe_time_to_live", TableName=name)
    if answer["TimeToLiveDescription"]["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}:
        return
    await client.call(
        "update_time_to_live",
        TableName=name,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"},
    )
