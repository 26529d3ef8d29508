"""Begins deletions: a mark that survives a crash, then the tombstone that everybody sees. `sweep` goes on with them.

The mark comes first, so that no tombstone is left alone. A mark without a tombstone is of a request that died in
between: it changes nothing and is dropped.
"""

import secrets

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.store import ConditionFailed, TransactionCancelled, Update

from clusterra_gateway.accounts.admin_events import cluster_event, tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_deletion_key, tenant_deletion_key, tenant_key
from clusterra_gateway.accounts.records import ClusterDeletion, Tenant, TenantDeletion
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.tenants.tenant_state import existing

log = structlog.get_logger()

ATTEMPTS = 5


class Deletions:
    """Deletions of clusters and tenants, as they are asked for. Asking again changes nothing, except for `force`."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def begin_cluster(self, ref: ClusterRef, *, by: str, force: bool = False) -> ClusterDeletion:
        """Begin to delete a cluster: it is paused for good, takes no jobs, and its workers go.

        With `force`, what its edge has is not waited for. Raises NotFound, Conflict.
        """
        if await self._directory.cluster(ref) is None:
            raise NotFound(f"there is no cluster {ref.cluster}", hint="list the clusters for their ids")
        key = cluster_deletion_key(ref)
        deletion = ClusterDeletion(by=by, since=now(), force=force)
        if not await self._directory.add(key, deletion):
            item = await self._directory.store.get(ACCOUNTS, key)
            if item is None:
                raise Conflict(f"the cluster {ref.cluster} has just been removed", hint="list the clusters")
            deletion = ClusterDeletion.of(item)
            if force and not deletion.force:
                deletion = deletion.model_copy(update={"force": True})
                try:
                    await self._directory.replace(key, deletion)
                except ConditionFailed:
                    raise Conflict("this deletion has just gone on", hint="try again") from None

        def tombstone(current: ClusterBinding | None) -> ClusterBinding:
            if current is None:
                raise Conflict(f"the cluster {ref.cluster} has just been removed", hint="list the clusters")
            # Paused as well, for a service of the release before, which does not know `deleting`.
            return current.model_copy(update={"deleting": True, "state": "paused"})

        fact = AdminFact(kind="cluster.deleting", actor=by, subject=ref.cluster)
        told = cluster_event(ref, fact, version=deletion.since.isoformat())
        try:
            await self._directory.change_cluster(ref, tombstone, changed=[told])
        except ConditionFailed:
            raise Conflict(f"others are changing the cluster {ref.cluster}", hint="try again") from None
        log.info("cluster_deletion_begun", tenant=ref.tenant, cluster=ref.cluster, by=by, force=force)
        return deletion

    async def begin_tenant(self, tenant_id: str, *, by: str, force: bool = False) -> Tenant:
        """Begin to delete a tenant with its clusters. Nobody joins it any more. Raises NotFound, Conflict."""
        tenant = await existing(self._directory, tenant_id)
        wanted = ClusterDeletion(by=by, since=now(), force=force)
        if not await self._directory.add(tenant_deletion_key(tenant_id), wanted) and force:
            await self._directory.replace(tenant_deletion_key(tenant_id), wanted)
        if tenant.deletion is not None:
            return tenant
        fact = AdminFact(kind="tenant.deleting", actor=by, subject=tenant_id)
        deleted = TenantDeletion(by=by, since=wanted.since)
        changed = await write_tenant(self._directory, self._registry, tenant_id, {"deletion": deleted}, fact)
        log.info("tenant_deletion_begun", tenant=tenant_id, by=by, force=force)
        return changed


async def write_tenant(
    directory: Directory, registry: Registry, tenant_id: str, changes: dict[str, object], fact: AdminFact
) -> Tenant:
    """Writes a changed tenant together with the fact, for the histories of its clusters. Raises NotFound, Conflict."""
    key = tenant_key(tenant_id)
    for _ in range(ATTEMPTS):
        tenant = await existing(directory, tenant_id)
        item = await directory.store.get(ACCOUNTS, key)
        if item is None or Tenant.of(item) != tenant:
            continue
        changed = tenant.model_copy(update=changes)
        events = tenant_events(registry, tenant_id, fact, version=secrets.token_hex(8))
        update = Update(ACCOUNTS, key, set=changed.attributes(), condition=VersionIs(item.version))
        token = f"tenant-{secrets.token_hex(16)}"
        try:
            await directory.outbox.transact(update, events.messages, events.kept, token=token)
        except TransactionCancelled:
            continue
        return changed
    raise Conflict(f"others are changing the tenant {tenant_id}", hint="try again")
