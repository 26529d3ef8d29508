"""The mark in the record that a restore is under way, so that it can be resumed, and nothing else begins."""

from typing import Any

from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_runtime.store.dynamodb_client import Client

_PK = "clusterra-restore"
_KEY = {"pk": {"S": _PK}, "sk": {"S": "state"}}


def is_marker(record: dict[str, Any]) -> bool:
    """Whether an item is the mark. It is not part of a backup."""
    return bool(record.get("pk") == _KEY["pk"])


async def restoring(client: Client, prefix: str) -> str | None:
    """The id of the backup whose restore is under way; None if there is none. Raises StoreError."""
    answer = await client.call("get_item", TableName=prefix + ACCOUNTS.name, Key=_KEY, ConsistentRead=True)
    item = answer.get("Item")
    return str(item["backup"]["S"]) if item else None


async def mark(client: Client, prefix: str, backup: str) -> None:
    """Mark that the restore of a backup begins or continues. Raises StoreError."""
    await client.call("put_item", TableName=prefix + ACCOUNTS.name, Item=_KEY | {"backup": {"S": backup}})


async def unmark(client: Client, prefix: str) -> None:
    """Remove the mark: the restore is complete. Raises StoreError."""
    await client.call("delete_item", TableName=prefix + ACCOUNTS.name, Key=_KEY)
