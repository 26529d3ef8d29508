"""What a restore finds before it writes anything, and why it may have to refuse."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import HB, LEASES, REGISTRY, SCALE
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.versions import GENERATION
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.versions import announcements
from clusterra_runtime.store.attribute_value import key_of
from clusterra_runtime.store.dynamodb_client import Client as DynamoDBClient
from clusterra_runtime.store.record_level import LEVEL
from clusterra_runtime.store.store import TableMissing

from clusterra_admin.backup.manifest import Manifest
from clusterra_admin.backup.marker import is_marker, restoring
from clusterra_admin.backup.stream_backup import fence_and_generation
from clusterra_admin.jetstream import stream_info
from clusterra_admin.tables.declared import TABLES

PREFIX = f"$KV.{REGISTRY.name}."
_FIRST_ITEMS = 3
"""More than the items that are not data: the mark of a restore, and the level of a table's records."""


class RestoreRefused(Exception):
    """The restore must not begin. `hint` says what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass
class Situation:
    """The target as it is."""

    resumed: bool = False
    """Whether a restore of the same backup was interrupted here."""
    bindings: dict[str, ClusterBinding] = field(default_factory=dict)
    """Key of a cluster -> its binding in the registry."""
    orders: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Key of a cluster -> the highest fence and generation that a desired state or the edge shows."""
    given_uids: dict[str, int] = field(default_factory=dict)
    """Partition key of a tenant -> the uids that it has given to people so far."""


async def look(client: Client, dynamodb: DynamoDBClient, prefix: str, manifest: Manifest, force: bool) -> Situation:
    """Look at the target. Raises RestoreRefused, StoreError, BusUnavailable."""
    if manifest.contracts_generation > GENERATION:
        raise RestoreRefused(
            f"the backup has contracts of generation {manifest.contracts_generation}, this release {GENERATION}",
            f"use clusterra-admin {manifest.version} or later",
        )
    known = {table.name for table in TABLES}
    if unknown := [table.name for table in manifest.tables if table.name not in known]:
        raise RestoreRefused(f"no service has the tables {unknown}", f"use clusterra-admin {manifest.version} or later")
    found = Situation()
    found.resumed = await _is_resumed(dynamodb, prefix, manifest, force)
    if not force:
        await _refuse_running(client)
    if not force and not found.resumed:
        await _refuse_items(dynamodb, prefix)
    await _read_registry(client, found)
    if found.bindings and not force and not found.resumed:
        raise RestoreRefused(
            f"the registry has {len(found.bindings)} clusters", "restore into a new NATS store, or see --force"
        )
    await _read_orders(client, found)
    await _refuse_low_fences(client, max([manifest.highest_fence, *(fence for fence, _ in found.orders.values())]))
    found.given_uids = await _given_uids(dynamodb, prefix) if force or found.resumed else {}
    return found


async def _is_resumed(dynamodb: DynamoDBClient, prefix: str, manifest: Manifest, force: bool) -> bool:
    try:
        under_way = await restoring(dynamodb, prefix)
        for table in TABLES:
            await dynamodb.call("describe_table", TableName=prefix + table.name)
    except TableMissing as error:
        raise RestoreRefused("a table does not exist", "run `clusterra-admin tables apply` first") from error
    if under_way not in {None, manifest.id} and not force:
        raise RestoreRefused(
            f"the restore of another backup ({under_way}) was interrupted here",
            "complete that one, or begin again with empty tables and a new NATS store",
        )
    return under_way == manifest.id


async def _refuse_running(client: Client) -> None:
    found, _ = await announcements(client)
    if running := sorted({one.service for one in found}):
        raise RestoreRefused(
            f"these services run: {', '.join(running)}",
            f"stop them first: `kubectl -n clusterra scale deployment {' '.join(running)} --replicas=0`; "
            "a killed one counts as running for 20 s",
        )


async def _refuse_items(dynamodb: DynamoDBClient, prefix: str) -> None:
    for table in TABLES:
        page = await dynamodb.call("scan", TableName=prefix + table.name, Limit=_FIRST_ITEMS, ConsistentRead=True)
        if any(not is_marker(record) and key_of(record) != LEVEL for record in page.get("Items", [])):
            raise RestoreRefused(
                f"the table {prefix}{table.name} is not empty",
                "restore under another CLUSTERRA_TABLE_PREFIX, or see --force: it replaces items with the same keys",
            )


async def _read_registry(client: Client, found: Situation) -> None:
    async for stored in replay(client, f"KV_{REGISTRY.name}", f"{PREFIX}>"):
        key = stored.subject.removeprefix(PREFIX)
        if "KV-Operation" in stored.headers:
            continue
        try:
            found.bindings[key] = decode(ClusterBinding, stored.body, dict(stored.headers))
        except InvalidMessage:
            continue  # It is replaced by the record's binding.


async def _read_orders(client: Client, found: Situation) -> None:
    for stream in (SCALE, HB):
        async for stored in replay(client, stream.name, ">"):
            try:
                key = subjects.parse(stored.subject).ref.key
                order = fence_and_generation(stream.name, stored)
            except (InvalidMessage, UnknownSubject):
                continue
            found.orders[key] = max(found.orders.get(key, (0, 0)), order)


async def _refuse_low_fences(client: Client, highest: int) -> None:
    """Edge-agents ignore desired states with a lower fence than the last, so new leases must have higher ones.

    A lease's fence is the time in microseconds when its bucket was created, plus a number that only rises. So a bucket
    that was created later gives higher fences, unless the clock of its server is wrong.
    """
    info = await stream_info(client, f"KV_{LEASES.name}")
    lowest = int(datetime.fromisoformat(info["created"][:26].rstrip("Z") + "+00:00").timestamp() * 1_000_000)
    if lowest + int(info["state"]["last_seq"]) < highest:
        raise RestoreRefused(
            f"new leases would have fences from {lowest}, but {highest} was given out before, "
            "so edge-agents would ignore all that the scaler decides",
            "correct the clock of the NATS servers, delete the stream KV_leases, and run "
            "`clusterra-admin topology apply`",
        )


async def _given_uids(dynamodb: DynamoDBClient, prefix: str) -> dict[str, int]:
    request: dict[str, Any] = {
        "TableName": prefix + ACCOUNTS.name,
        "ConsistentRead": True,
        "FilterExpression": "sk = :uid",
        "ExpressionAttributeValues": {":uid": {"S": "uid"}},
    }
    given: dict[str, int] = {}
    while True:
        page = await dynamodb.call("scan", **request)
        given |= {record["pk"]["S"]: int(record["given"]["N"]) for record in page.get("Items", []) if "given" in record}
        if "LastEvaluatedKey" not in page:
            return given
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
