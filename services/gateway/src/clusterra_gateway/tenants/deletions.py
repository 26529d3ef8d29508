"""Begins deletions: a mark that survives a crash, then the tombstone that everybody sees. `sweep` goes on with them.

The mark comes first, so that no tombstone is left alone. A mark without a tombstone is of a request that died in
between: it changes nothing and is dropped.
"""

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import ConditionFailed

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_deletion_key, tenant_deletion_key
from clusterra_gateway.accounts.records import ClusterDeletion, Tenant, TenantDeletion
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.tenants.tenant_record import change_tenant, existing

log = structlog.get_logger()


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
        await existing(self._directory, tenant_id)
        wanted = ClusterDeletion(by=by, since=now(), force=force)
        if not await self._directory.add(tenant_deletion_key(tenant_id), wanted) and force:
            await self._directory.replace(tenant_deletion_key(tenant_id), wanted)
        deletion = TenantDeletion(by=by, since=wanted.since)

        async def deleted(tenant: Tenant) -> Tenant:
            return tenant if tenant.deletion is not None else tenant.model_copy(update={"deletion": deletion})

        fact = AdminFact(kind="tenant.deleting", actor=by, subject=tenant_id)
        before, tenant = await change_tenant(self._directory, self._registry, tenant_id, deleted, fact)
        if before.deletion is None:
            log.info("tenant_deletion_begun", tenant=tenant_id, by=by, force=force)
        return tenant
