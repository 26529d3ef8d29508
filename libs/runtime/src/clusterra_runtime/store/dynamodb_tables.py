"""Tables of DynamoDB: keys, expiry and indexes, as a `Table` declares them."""

import asyncio
from typing import Any

from clusterra_runtime.store.dynamodb_client import Client
from clusterra_runtime.store.store import Index, StoreError, Table, TableMissing

READY_SECONDS = 600.0
"""DynamoDB needs seconds for a table, and minutes for an index that is added to a table with items."""
EXPIRY_ATTRIBUTE = "expires_at"
_POLL_SECONDS = 0.1
_LONGEST_POLL_SECONDS = 5.0
_USABLE = frozenset({"ACTIVE", "UPDATING"})
"""DynamoDB serves a table, or an index, also while it changes it: its capacity, or another index of the table."""


async def create_table(client: Client, table: Table, name: str) -> None:
    """Create what is missing of a table, and return when it can be used.

    Raises StoreError for an existing table with other keys, and for one that is not active within 10 min.
    """
    if await _description(client, name) is None:
        try:
            await client.call("create_table", **_definition(table, name))
        except StoreError:
            if await _description(client, name) is None:
                raise  # Otherwise another process created it in between.
    description = await _active_description(client, name)
    if description["KeySchema"] != _keys("pk", "sk"):
        raise StoreError(f"table {name} has other keys than pk and sk: drop it, or choose another table prefix")
    for index in _missing_indexes(table, description):
        # DynamoDB adds one index at a time.
        await _add_index(client, index, name)
        await _active_description(client, name)
    await _enable_expiry(client, name)


async def is_usable(client: Client, table: Table, name: str) -> bool:
    """Whether a table exists and serves requests, and so do the indexes that it declares.

    An index that another release declares does not matter: it may be in the making for hours.
    """
    description = await _description(client, name)
    return description is not None and not _missing_indexes(table, description) and _serves(table, description)


async def table_differences(client: Client, table: Table, name: str) -> list[str]:
    """How a table differs from its declaration, in words; empty if it does not."""
    description = await _description(client, name)
    if description is None:
        return ["does not exist"]
    found = []
    if description["KeySchema"] != _keys("pk", "sk"):
        found.append("has other keys than pk and sk")
    if not _serves(table, description):
        found.append("is not active yet")
    found += [f"lacks the index {index.name}" for index in _missing_indexes(table, description)]
    if not await _expires(client, name):
        found.append(f"does not expire items by {EXPIRY_ATTRIBUTE}")
    return found


def _definition(table: Table, name: str) -> dict[str, Any]:
    names = {"pk", "sk"} | {attribute for index in table.indexes for attribute in (index.partition, index.sort)}
    definition: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _keys("pk", "sk"),
        "AttributeDefinitions": _attributes(*sorted(names)),
    }
    if table.indexes:
        definition["GlobalSecondaryIndexes"] = [_index(index) for index in table.indexes]
    return definition


def _attributes(*names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def _index(index: Index) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _keys(index.partition, index.sort),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _missing_indexes(table: Table, description: dict[str, Any]) -> list[Index]:
    existing = {index["IndexName"] for index in description.get("GlobalSecondaryIndexes") or []}
    return [index for index in table.indexes if index.name not in existing]


async def _add_index(client: Client, index: Index, name: str) -> None:
    try:
        await client.call(
            "update_table",
            TableName=name,
            AttributeDefinitions=_attributes(index.partition, index.sort),
            GlobalSecondaryIndexUpdates=[{"Create": _index(index)}],
        )
    except StoreError:
        description = await _description(client, name)
        if description is None or index in _missing_indexes(Table(name, (index,)), description):
            raise  # Otherwise another process added it in between.


async def _description(client: Client, name: str) -> dict[str, Any] | None:
    try:
        answer = await client.call("describe_table", TableName=name)
    except TableMissing:
        return None
    table: dict[str, Any] = answer["Table"]
    return table


async def _active_description(client: Client, name: str) -> dict[str, Any]:
    pause = _POLL_SECONDS
    try:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                description = await _description(client, name)
                if description is not None and _is_active(description):
                    return description
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
    except TimeoutError:
        raise StoreError(f"table {name} is not active after {READY_SECONDS:g} s: look at it in AWS") from None


def _serves(table: Table, description: dict[str, Any]) -> bool:
    """Whether the table and those of its declared indexes that exist serve requests."""
    declared = {index.name for index in table.indexes}
    indexes = [each for each in description.get("GlobalSecondaryIndexes") or [] if each["IndexName"] in declared]
    return {description["TableStatus"], *(index["IndexStatus"] for index in indexes)} <= _USABLE


def _is_active(description: dict[str, Any]) -> bool:
    indexes = description.get("GlobalSecondaryIndexes") or []
    return {description["TableStatus"], *(index["IndexStatus"] for index in indexes)} == {"ACTIVE"}


async def _expires(client: Client, name: str) -> bool:
    answer = await client.call("describe_time_to_live", TableName=name)
    return answer["TimeToLiveDescription"]["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}


async def _enable_expiry(client: Client, name: str) -> None:
    if await _expires(client, name):
        return
    await client.call(
        "update_time_to_live",
        TableName=name,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRY_ATTRIBUTE},
    )
