"""Removes a cluster that is being deleted, one step at a time. Every step may be repeated, and by another replica.

| step | until |
|---|---|
| the tombstone is in the registry: no jobs, workers go | the edge has nothing, or the wait is over, or `force` |
| the cluster leaves the registry, so no service works for it | every replica has read the registry again |
| each service removes its records; streams are purged | a whole round has found nothing |
| the binding goes, then the mark of the deletion | |

A service never reads another's table. The scaler and the archive are asked to remove what is theirs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog
from clusterra_contracts.bus import subjects, traces
from clusterra_contracts.bus.topology import EDGE_EVENT, HB
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.forget import Forget, Forgotten
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import REREAD_SECONDS, Registry, delete_binding
from clusterra_runtime.nats.rpc import call
from clusterra_runtime.nats.streams.purge import purge
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Delete, Store, Table, Update

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    cluster_key,
    deleted_cluster,
    file_event_key,
    hook_event_key,
    reservations_partition,
)
from clusterra_gateway.accounts.records import ClusterDeletion
from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.accounts.shared_link_records import SharedLinkRecords
from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.bus.cluster_health import has_nothing
from clusterra_gateway.bus_credentials.records import forget_cluster
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.tenants.shares import give_share_back
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

log = structlog.get_logger()

PAGE = 500
QUIET_SECONDS = 15.0
"""After the tombstone, the edge is not believed to have nothing for this long: a worker may be on its way."""
SETTLE_SECONDS = REREAD_SECONDS + 5.0
"""After this time every replica has noticed that the cluster left the registry, even without a notification."""
ABANDONED = timedelta(minutes=1)
"""The age of a mark without a tombstone that counts as abandoned."""
PAGES = 20
"""Pages of records that a service removes in one step: a step takes seconds, not minutes."""
SESSIONS = 500
"""Records of interactive sessions that are removed in one step."""
SHARED_LINKS = 500
"""The same for shared links."""
FORGET_SECONDS = 20.0
OWNERS = ("scaler", "events")
"""The services that store records of clusters, besides the gateway."""
_RETOLD = frozenset({HB.name, EDGE_EVENT.name})
"""Messages that a running edge-agent repeats. They expire within minutes, so the removal does not wait for them."""


class ClusterRemoval:
    """The steps of a cluster's deletion."""

    def __init__(
        self, directory: Directory, client: Client, registry: Registry, workflows: WorkflowRecords, wait_seconds: float
    ) -> None:
        """`wait_seconds`: how long the edge is waited for at most."""
        self._directory = directory
        self._client = client
        self._registry = registry
        self._workflows = workflows
        self._wait = timedelta(seconds=wait_seconds)

    async def step(self, item: Item) -> None:
        """Take the deletion with this mark one step further.

        Raises StoreError, BusUnavailable, MessageRejected, InvalidMessage, RpcFailed, RequestError.
        """
        ref, deletion = deleted_cluster(item.key), ClusterDeletion.of(item)
        if deletion.removing_since is None:
            await self._release(ref, deletion, item)
            return
        if self._registry.get(ref) is not None:
            await delete_binding(self._client, ref)
            return
        if now() - deletion.removing_since < timedelta(seconds=SETTLE_SECONDS):
            return
        if removed := await self._removed(ref):
            log.info("cluster_records_removed", tenant=ref.tenant, cluster=ref.cluster, removed=removed)
            return
        await self._directory.store.delete(Delete(ACCOUNTS, cluster_key(ref)))
        await give_share_back(self._directory, self._registry, ref)
        await self._directory.store.delete(Delete(ACCOUNTS, item.key))
        log.info("cluster_deleted", tenant=ref.tenant, cluster=ref.cluster, by=deletion.by)

    async def _release(self, ref: ClusterRef, deletion: ClusterDeletion, item: Item) -> None:
        binding = await self._directory.cluster(ref)
        if binding is None or not binding.deleting:
            if now() - deletion.since > ABANDONED:
                await self._directory.store.delete(Delete(ACCOUNTS, item.key, VersionIs(item.version)))
            return
        waited = now() - deletion.since
        quiet_since = deletion.since + timedelta(seconds=QUIET_SECONDS)
        released = deletion.force or waited >= self._wait or await has_nothing(self._client, ref, quiet_since)
        if not released:
            return
        update = {"removing_since": now().isoformat()}
        await self._directory.store.write(Update(ACCOUNTS, item.key, set=update, condition=VersionIs(item.version)))
        await delete_binding(self._client, ref)
        log.info("cluster_leaves", tenant=ref.tenant, cluster=ref.cluster, waited_seconds=waited.total_seconds())

    async def _removed(self, ref: ClusterRef) -> int:
        """Remove what there is. Returns how many records and messages that were: 0 after a round without any."""
        removed = await put_agent_key(self._directory, AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster), None)
        count = 0 if removed is None else 1
        for service in OWNERS:
            count += await _page_by_page(partial(self._forgotten, ref, service))
        count += await _page_by_page(partial(self._workflows.forget, ref, 50))
        count += await _page_by_page(partial(StagingRecords(self._directory.store).forget, ref, 50))
        count += await forget_cluster(self._directory.store, BusLoginRequests(self._client), ref)
        count += await ScheduleRecords(self._directory).forget(ref)
        count += await SessionRecords(self._directory.store).forget(ref, SESSIONS)
        count += await SharedLinkRecords(self._directory.store).forget(ref, SHARED_LINKS)
        told = (file_event_key(ref, "any").pk, hook_event_key(ref, "any").pk)
        for partition in (*told, reservations_partition(ref)):
            count += await remove_partition(self._directory.store, ACCOUNTS, partition)
        for stream, patterns in traces.of_cluster(ref).items():
            for pattern in patterns:
                purged = await purge(self._client, stream, pattern)
                count += 0 if stream in _RETOLD else purged
        if count == 0:
            # Last and seldom: it reads the whole table.
            claims = f"{ref.key}#"
            count += await remove_where(self._directory.store, IDEMPOTENCY, lambda each: each.key.pk.startswith(claims))
        return count

    async def _forgotten(self, ref: ClusterRef, service: str) -> int:
        subject = subjects.forget(ref, service)
        return (await call(self._client, subject, Forget(), Forgotten, timeout_seconds=FORGET_SECONDS)).removed


async def _page_by_page(forget: Callable[[], Awaitable[int]]) -> int:
    """Removes pages of records until there is none, or for long enough. Returns how many records those were."""
    count = 0
    for _ in range(PAGES):
        count += (removed := await forget())
        if not removed:
            break
    return count


async def remove_where(store: Store, table: Table, belongs: Callable[[Item], bool]) -> int:
    """Remove the items that belong to it, page by page. Returns how many. Raises StoreError."""
    removed = 0
    async for item in everything(store, table):
        if belongs(item):
            await store.delete(Delete(table, item.key))
            removed += 1
    return removed


async def remove_partition(store: Store, table: Table, pk: str, *, keep: str = "") -> int:
    """Remove the items of a partition but the one with the sort key `keep`. Returns how many. Raises StoreError."""
    removed = 0
    async for item in all_items(lambda after: store.query(table, pk, limit=PAGE, cursor=after)):
        if item.key.sk != keep:
            await store.delete(Delete(table, item.key))
            removed += 1
    return removed


def everything(store: Store, table: Table) -> AsyncIterator[Item]:
    """All live items of a table, in no order. Raises StoreError."""
    return all_items(lambda after: store.scan(table, limit=PAGE, cursor=after))
