"""What operators do with tenants in the record. `provisioning` writes the tenants themselves."""

from collections.abc import Mapping

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import compare
from clusterra_runtime.store.page import InvalidCursor, Prefix
from clusterra_runtime.store.store import ConditionFailed, Delete

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS, TENANTS, domain_key, listed_tenant_key
from clusterra_gateway.accounts.records import Mark, Tenant
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key, put_slurm_key
from clusterra_gateway.http.requests.errors import InvalidRequest, NotFound
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.tenants.deletions import write_tenant
from clusterra_gateway.tenants.provisioning import Provisioning
from clusterra_gateway.tenants.shares import share_out, shares
from clusterra_gateway.tenants.specification import BindingFields, ClusterFields, TenantSpecification
from clusterra_gateway.tenants.tenant_state import existing, refuse_deleted

log = structlog.get_logger()


async def list_tenants_of_clusters(directory: Directory) -> None:
    """Mark the tenants of clusters as listed: the release before made tenants without a mark. Raises StoreError.

    One that has no cluster is listed after its next `provision apply`.
    """
    for tenant_id in sorted({ref.tenant for ref in await directory.clusters()}):
        if await directory.tenant(TenantRef(tenant=tenant_id)) is not None:
            await directory.add(listed_tenant_key(tenant_id), Mark())


class Tenants:
    """All tenants of the platform. Whoever uses it has checked that an operator asks."""

    def __init__(self, directory: Directory, registry: Registry, catalogue: Catalogue | None) -> None:
        self._directory = directory
        self._registry = registry
        self._catalogue = catalogue

    async def page(self, *, limit: int, cursor: str | None) -> tuple[list[tuple[str, Tenant]], str | None]:
        """Tenants in the order of their ids, and a cursor. Raises InvalidRequest for a foreign one."""
        try:
            page = await self._directory.store.query(ACCOUNTS, TENANTS, limit=limit, cursor=cursor)
        except InvalidCursor as error:
            raise InvalidRequest(str(error), hint="leave `cursor` out to begin with the first tenant") from None
        found = [(item.key.sk, await self._directory.tenant(TenantRef(tenant=item.key.sk))) for item in page.items]
        return [(name, tenant) for name, tenant in found if tenant is not None], page.cursor

    async def get(self, tenant_id: str) -> Tenant:
        """A tenant, also while it is being deleted. Raises NotFound."""
        return await existing(self._directory, tenant_id)

    async def create(self, given: TenantSpecification, *, by: str) -> Tenant:
        """Makes a tenant. Raises Conflict."""
        created = AdminFact(kind="tenant.created", actor=by, subject=given.id)
        tenant = await self._provisioning(by).create_tenant(given, created)
        log.info("tenant_created", tenant=given.id)
        return tenant

    async def change(self, tenant_id: str, changes: Mapping[str, object], *, by: str) -> Tenant:
        """Changes the name, the domains, the issuers or the cap. Raises NotFound, Conflict."""
        tenant = await existing(self._directory, tenant_id)
        refuse_deleted(tenant_id, tenant)
        changed = tenant.model_copy(update=dict(changes))
        await shares(self._directory, tenant_id, changed)  # a cap that does not suffice changes nothing
        await self._provisioning(by).assign_domains(tenant_id, changed, changed.domains)
        fact = AdminFact(kind="tenant.changed", actor=by, subject=tenant_id)
        written = await write_tenant(self._directory, self._registry, tenant_id, dict(changes), fact)
        for domain in sorted({*tenant.domains} - {*written.domains}):
            await self._give_back(tenant_id, domain)
        if changes.keys() & {"usd_per_hour"}:
            await share_out(self._directory, tenant_id)
        return written

    async def clusters(self, tenant_id: str) -> list[tuple[ClusterRef, ClusterBinding]]:
        """The clusters of a tenant, by id. Raises NotFound."""
        await existing(self._directory, tenant_id)
        page = await self._directory.store.query(ACCOUNTS, CLUSTERS, sort=Prefix(f"{tenant_id}."))
        refs = [ClusterRef.from_key(item.key.sk) for item in page.items]
        found = [(ref, await self._directory.cluster(ref)) for ref in refs]
        return [(ref, binding) for ref, binding in found if binding is not None]

    async def cluster(self, ref: ClusterRef) -> ClusterBinding:
        """A cluster of a tenant. Raises NotFound."""
        binding = await self._directory.cluster(ref)
        if binding is None:
            raise NotFound(f"the tenant {ref.tenant} has no cluster {ref.cluster}", hint="list its clusters")
        return binding

    async def bind(self, tenant_id: str, given: ClusterFields, key: str, *, by: str) -> int:
        """Binds a cluster, whose agent gets this key. Returns the binding's version. Raises NotFound, Conflict."""
        ref = ClusterRef(tenant=tenant_id, cluster=given.id)
        version = await self._provisioning(by).bind_cluster(tenant_id, given)
        owner = AgentKeyOwner(tenant=tenant_id, cluster=given.id, slurm_key=given.slurm_key)
        await put_agent_key(self._directory, owner, secret_hash(key))
        log.info("cluster_bound", tenant=ref.tenant, cluster=ref.cluster, version=version)
        return version

    async def rebind(self, ref: ClusterRef, given: BindingFields, *, by: str) -> ClusterBinding:
        """Gives a cluster this binding in place of the present one. Raises NotFound, Conflict, InvalidRequest."""
        fields = ClusterFields(id=ref.cluster, **dict(given))
        version = await self._provisioning(by).rebind_cluster(ref.tenant, fields)
        await put_slurm_key(self._directory, ref, fields.slurm_key)
        if version is not None:
            log.info("cluster_changed", tenant=ref.tenant, cluster=ref.cluster, version=version)
        return await self.cluster(ref)

    async def _give_back(self, tenant_id: str, domain: str) -> None:
        mine = compare("tenant", "==", tenant_id)
        try:
            await self._directory.store.delete(Delete(ACCOUNTS, domain_key(domain), mine))
        except ConditionFailed:
            log.info("domain_not_given_back", tenant=tenant_id, reason="another tenant has it, or none")

    def _provisioning(self, by: str) -> Provisioning:
        return Provisioning(self._directory, self._catalogue, self._registry.clusters, actor=by)
