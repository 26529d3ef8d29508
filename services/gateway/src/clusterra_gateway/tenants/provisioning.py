"""Applies a provision file by the rules that operators' requests keep: tenants, people and clusters.

Applying a file again changes nothing. What the file does not name stays as it is, with one exception: a cluster that
the file names without an agent key loses its key.
"""

from clusterra_contracts.agent_http import is_key
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import invitation_key, listed_tenant_key
from clusterra_gateway.accounts.records import ALLOCATED, Invitation, Mark, Tenant
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import apply_source
from clusterra_gateway.directory.maps.sources import LdapSource
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.tenants.specification import ClusterSpecification, ProvisionFile, TenantSpecification
from clusterra_gateway.tenants.tenant_clusters import TenantClusters, check_address
from clusterra_gateway.tenants.tenant_record import refuse_deleted
from clusterra_gateway.tenants.tenants import Tenants

ACTOR = "provision"
"""Who acts by `clusterra-admin provision`."""


class Provisioning:
    """Writes what the record lacks. `registry` has the bindings that the services know."""

    def __init__(
        self,
        directory: Directory,
        default_catalogue: Catalogue | None,
        registry: Registry,
        outbound: Outbound = DEFAULT_OUTBOUND,
    ) -> None:
        self._directory = directory
        self._outbound = outbound
        self._tenants = Tenants(directory, registry)
        self._clusters = TenantClusters(directory, registry, default_catalogue, outbound)

    async def apply(self, given: ProvisionFile) -> None:
        """Writes what differs. Raises Conflict for what belongs to another tenant, InvalidRequest, StoreError."""
        for tenant in given.tenants:
            await self._put_tenant(tenant)
        for tenant in given.tenants:
            await self._invite(tenant)
            for name, source in tenant.identity_sources.items():
                if isinstance(source, LdapSource):
                    await check_address(self._outbound, f"identity_sources.{name}.url", source.url)
                await apply_source(self._directory.store, MapRef(tenant.id, name), source)
            expected = {cluster.id for cluster in tenant.clusters}
            for cluster in tenant.clusters:
                ref = ClusterRef(tenant=tenant.id, cluster=cluster.id)
                await self._clusters.check_addresses(cluster)
                await self._clusters.put(ref, cluster, expected, by=ACTOR)
                await self._put_agent_key(ref, cluster)

    async def _put_tenant(self, given: TenantSpecification) -> None:
        """Makes a tenant, or changes its name and cap and adds domains. Raises Conflict."""
        wanted = Tenant(
            name=given.name,
            domains=given.domains,
            issuers=given.issuers,
            usd_per_hour=given.usd_per_hour,
            own_caps=given.own_caps(),
            identity_source=None if given.identity_source == ALLOCATED else given.identity_source,
        )
        known = await self._directory.tenant(TenantRef(tenant=given.id))
        if known is None:
            await self._tenants.create(given.id, wanted, by=ACTOR)
            return
        refuse_deleted(given.id, known)

        def changed(known: Tenant) -> Tenant:
            stays: dict[str, object] = {
                "domains": tuple(dict.fromkeys((*known.domains, *wanted.domains))),
                "own_caps": {**known.own_caps, **wanted.own_caps},
                "deletion": known.deletion,
            }
            if "issuers" not in given.model_fields_set:
                stays["issuers"] = known.issuers
            return wanted.model_copy(update=stays)

        await self._tenants.change(given.id, changed, by=ACTOR, expected=wanted.own_caps)
        await self._directory.add(listed_tenant_key(given.id), Mark())

    async def _invite(self, given: TenantSpecification) -> None:
        for email in sorted({*given.owners, *given.admins, *given.members}):
            await self._refuse_address_of_another(given.id, email)
            owner = email in given.owners
            wanted = Invitation(tenant=given.id, admin=owner or email in given.admins, owner=owner)
            known = await self._directory.invitation(email)
            if known is not None and known.tenant != given.id:
                raise Conflict(
                    f"invitation of {email} belongs to tenant {known.tenant}", hint="remove it from that tenant first"
                )
            await self._directory.replace(invitation_key(email), wanted)

    async def _refuse_address_of_another(self, tenant: str, email: str) -> None:
        """The domain's tenant decides who joins it: its people never land in another tenant by an invitation."""
        name = email.rpartition("@")[2]
        domain = await self._directory.domain(name)
        if domain is not None and domain.tenant != tenant:
            raise Conflict(
                f"tenant {tenant} cannot invite {email}: the domain {name} belongs to tenant {domain.tenant}",
                hint="remove the address from the file, or invite another one of this person",
            )

    async def _put_agent_key(self, ref: ClusterRef, given: ClusterSpecification) -> None:
        key_hash = None
        if given.agent_key is not None:
            try:
                async with Secrets() as secrets:
                    key = (await secrets.read(given.agent_key)).decode(errors="replace")
            except SecretUnavailable as error:
                raise InvalidRequest(f"the agent key of {ref}: {error}") from error
            if not is_key(key):
                raise InvalidRequest(
                    f"{given.agent_key} does not hold an agent key",
                    hint="generate one with `clusterra-admin secrets agent-key`",
                )
            key_hash = secret_hash(key)
        owner = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=given.slurm_key)
        await put_agent_key(self._directory, owner, key_hash)
