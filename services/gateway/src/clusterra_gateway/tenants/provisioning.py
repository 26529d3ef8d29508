"""Writes tenants, people and clusters to the gateway's record: those of a provision file, and those of the API.

Applying a file again changes nothing. What the file does not name stays as it is, with one exception: a cluster that
the file names without an agent key loses its key.
"""

import secrets
from collections.abc import Collection, Mapping

import structlog
from clusterra_contracts.agent_http import is_key
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, TenantRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import Put, TransactionCancelled, Update, Write

from clusterra_gateway.accounts.admin_events import cluster_event, kept_fact
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    domain_key,
    invitation_key,
    listed_tenant_key,
    tenant_key,
    user_name_key,
)
from clusterra_gateway.accounts.records import OPERATOR, Domain, Invitation, Mark, Tenant, UserNameReservation
from clusterra_gateway.accounts.slurm_identities import FIRST_UID
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords, apply_source
from clusterra_gateway.directory.maps.sources import ALLOCATED
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.tenants.shares import share_out, shares
from clusterra_gateway.tenants.specification import (
    ClusterFields,
    ClusterSpecification,
    ProvisionFile,
    TenantSpecification,
)
from clusterra_gateway.tenants.tenant_state import existing, refuse_deleted

log = structlog.get_logger()

ACTOR = "provision"
"""Who acts by `clusterra-admin provision`."""


class Provisioning:
    """Writes what the record lacks. `changes` describes each change in words.

    `registered` are the bindings that the services know. They ignore versions that are not higher, also of a cluster
    that the record lacks because its removal was interrupted.
    """

    def __init__(
        self,
        directory: Directory,
        default_catalogue: Catalogue | None,
        registered: Mapping[ClusterRef, ClusterBinding] | None = None,
        *,
        actor: str = ACTOR,
    ) -> None:
        self._directory = directory
        self._default_catalogue = default_catalogue
        self._registered = registered or {}
        self._actor = actor
        self.changes: list[str] = []

    async def apply(self, given: ProvisionFile) -> None:
        """Writes what differs. Raises Conflict for what belongs to another tenant, InvalidRequest, StoreError."""
        for tenant in given.tenants:
            await self.put_tenant(tenant)
        for tenant in given.tenants:
            for email in sorted({*tenant.owners, *tenant.admins, *tenant.members}):
                await self._refuse_address_of_another(tenant.id, email)
                owner = email in tenant.owners
                invitation = Invitation(tenant=tenant.id, admin=owner or email in tenant.admins, owner=owner)
                await self._assign(f"invitation of {email}", invitation_key(email), invitation)
            for name, source in tenant.identity_sources.items():
                self.changes += await apply_source(self._directory.store, MapRef(tenant.id, name), source)
            for cluster in tenant.clusters:
                await self.put_cluster(tenant.id, cluster)
            self.changes += await share_out(self._directory, tenant.id)

    async def create_tenant(self, given: TenantSpecification, told: AdminFact | None = None) -> Tenant:
        """Makes a tenant that does not exist. Raises Conflict, also for an id that was deleted recently.

        The fact `told` is kept for the history of the tenant's first cluster.
        """
        await self._refuse_domains_of_others(given)
        tenant = _first(given)
        writes: list[Write] = [
            Put(ACCOUNTS, tenant_key(given.id), tenant.attributes(), Absent()),
            Update(ACCOUNTS, listed_tenant_key(given.id)),
        ]
        if told is not None:
            writes.append(kept_fact(given.id, told, version="1", at=now()))
        for name in given.domains:
            if await self._directory.domain(name) is None:
                domain = Domain(tenant=given.id, issuers=given.issuers)
                writes.append(Put(ACCOUNTS, domain_key(name), domain.attributes(), Absent()))
        try:
            await self._directory.store.transact(writes, token=f"tenant-{secrets.token_hex(16)}")
        except TransactionCancelled as cancelled:
            if (failed := cancelled.reasons[0]) is not None:
                raise _taken(given.id, failed.current) from None
            raise Conflict("one of these domains was given to another tenant just now", hint="try again") from None
        self.changes.append(f"tenant {given.id}")
        self.changes += [f"domain {name}: tenant {given.id}" for name in given.domains]
        return tenant

    async def put_tenant(self, given: TenantSpecification) -> None:
        """Makes a tenant, or changes its name and cap and adds domains. Raises Conflict."""
        known = await self._directory.tenant(TenantRef(tenant=given.id))
        if known is None:
            await self.create_tenant(given)
            return
        refuse_deleted(given.id, known)
        await self._refuse_domains_of_others(given)
        domains = tuple(dict.fromkeys((*known.domains, *given.domains)))
        changed = known.model_copy(
            update=_first(given).model_dump(include={"name", "issuers", "usd_per_hour", "identity_source"})
            | {"domains": domains, "own_caps": {**known.own_caps, **given.own_caps()}}
        )
        await self.change_tenant(given.id, changed, given.domains)

    async def change_tenant(self, tenant_id: str, changed: Tenant, domains: Collection[str]) -> None:
        """Writes a changed tenant, and assigns these domains to it with its issuers. Raises Conflict."""
        await self._directory.add(listed_tenant_key(tenant_id), Mark())
        if await self._directory.replace(tenant_key(tenant_id), changed):
            self.changes.append(f"tenant {tenant_id}")
        await self.assign_domains(tenant_id, changed, domains)

    async def assign_domains(self, tenant_id: str, tenant: Tenant, domains: Collection[str]) -> None:
        """Assigns these domains to a tenant with its issuers. Raises Conflict for one of another tenant."""
        for domain in domains:
            record = Domain(tenant=tenant_id, issuers=tenant.issuers)
            await self._assign(f"domain {domain}", domain_key(domain), record)

    async def bind_cluster(self, tenant_id: str, given: ClusterFields) -> int:
        """Adds a cluster to a tenant. Returns the version of its binding.

        Raises NotFound, Conflict for one that exists or a cap that does not suffice, InvalidRequest.
        """
        tenant = await existing(self._directory, tenant_id)
        refuse_deleted(tenant_id, tenant)
        if await self._directory.cluster(ClusterRef(tenant=tenant_id, cluster=given.id)) is not None:
            raise Conflict(f"the tenant {tenant_id} has a cluster {given.id}", hint="choose another id, or delete it")
        own_caps = {**tenant.own_caps, given.id: given.policy.usd_per_hour}
        with_cap = tenant.model_copy(update={"own_caps": own_caps})
        await shares(self._directory, tenant_id, with_cap, given.id)
        if not await self._directory.replace(tenant_key(tenant_id), with_cap):
            log.info("cluster_bound_again", tenant=tenant_id, cluster=given.id)
        # The others shrink before the new one may spend anything.
        self.changes += await share_out(self._directory, tenant_id, given.id)
        return await self._put_binding(tenant_id, given, new=True) or 1

    async def rebind_cluster(self, tenant_id: str, given: ClusterFields) -> int | None:
        """Gives a cluster this binding. Returns its version; None where nothing changes.

        Raises NotFound for a cluster that does not exist, Conflict, InvalidRequest.
        """
        tenant = await existing(self._directory, tenant_id)
        refuse_deleted(tenant_id, tenant)
        binding = await self._directory.cluster(ClusterRef(tenant=tenant_id, cluster=given.id))
        if binding is None:
            raise NotFound(f"the tenant {tenant_id} has no cluster {given.id}", hint="bind it first")
        if binding.deleting:
            raise Conflict(f"the cluster {given.id} is being deleted", hint="a deletion cannot be taken back")
        own_caps = {**tenant.own_caps, given.id: given.policy.usd_per_hour}
        with_cap = tenant.model_copy(update={"own_caps": own_caps})
        await shares(self._directory, tenant_id, with_cap)  # a cap that does not suffice changes nothing
        await self._directory.replace(tenant_key(tenant_id), with_cap)
        self.changes += await share_out(self._directory, tenant_id)
        return await self._put_binding(tenant_id, given, new=False)

    async def put_cluster(self, tenant_id: str, given: ClusterSpecification) -> None:
        """Makes or changes a cluster of a provision file, with its agent key."""
        await self._put_binding(tenant_id, given, new=False)
        await self._put_agent_key(ClusterRef(tenant=tenant_id, cluster=given.id), given)

    async def _refuse_domains_of_others(self, given: TenantSpecification) -> None:
        for name in given.domains:
            domain = await self._directory.domain(name)
            if domain is not None and domain.tenant != given.id:
                raise Conflict(
                    f"domain {name} belongs to tenant {domain.tenant}", hint="remove it from that tenant first"
                )

    async def _assign(self, what: str, key: Key, record: Domain | Invitation) -> None:
        item = await self._directory.store.get(ACCOUNTS, key)
        if item is not None and (owner := str(item.attributes["tenant"])) != record.tenant:
            raise Conflict(f"{what} belongs to tenant {owner}", hint="remove it from that tenant first")
        if await self._directory.replace(key, record):
            self.changes.append(f"{what}: tenant {record.tenant}")

    async def _refuse_address_of_another(self, tenant: str, email: str) -> None:
        """The domain's tenant decides who joins it: its people never land in another tenant by an invitation."""
        name = email.rpartition("@")[2]
        domain = await self._directory.domain(name)
        if domain is not None and domain.tenant != tenant:
            raise Conflict(
                f"tenant {tenant} cannot invite {email}: the domain {name} belongs to tenant {domain.tenant}",
                hint="remove the address from the file, or invite another one of this person",
            )

    async def _put_binding(self, tenant: str, given: ClusterFields, *, new: bool) -> int | None:
        """Writes a binding. Returns its version; None where nothing changed."""
        shapes = given.catalogue or self._default_catalogue
        if shapes is None:
            raise InvalidRequest(
                f"cluster {given.id} has no catalogue of shapes",
                hint="set CLUSTERRA_CATALOGUE_FILE, or add a `catalogue` to the cluster",
            )
        await self._reserve_operator(tenant, given.operator)
        ref = ClusterRef(tenant=tenant, cluster=given.id)
        orphan = self._registered.get(ref)
        first_version = 1 if orphan is None else orphan.version + 1
        known = await existing(self._directory, tenant)
        caps = await shares(self._directory, tenant, known, given.id)
        policy = given.policy.model_copy(update={"usd_per_hour": caps[given.id]})
        source = await self._identity_source(tenant, known, given)

        def as_given(current: ClusterBinding | None) -> ClusterBinding:
            if current is not None and (new or current.deleting):
                state = "being deleted" if current.deleting else "there"
                raise Conflict(f"the cluster {ref} is {state}", hint="choose another id, or wait until it is deleted")
            # `pause` and `resume` decide the state; what is given has no say in it.
            kept = {"state": "active" if current is None else current.state, "version": first_version}
            decided = {"policy": policy, "catalogue": shapes, "identity_source": source}
            return ClusterBinding(**{**dict(given), **decided, **kept})

        registered = AdminFact(kind="cluster.registered", actor=self._actor, subject=given.id)
        changed = AdminFact(kind="cluster.changed", actor=self._actor, subject=given.id)
        version = await self._directory.change_cluster(
            ref,
            as_given,
            [cluster_event(ref, registered, version="1")],
            changed=[cluster_event(ref, changed, version=now().isoformat())],
        )
        if version is not None:
            self.changes.append(f"cluster {tenant}/{given.id}: version {version}")
        return version

    async def _identity_source(self, tenant_id: str, tenant: Tenant, given: ClusterFields) -> str | None:
        """The source of a cluster's users; None where Clusterra allocates uids. Raises InvalidRequest."""
        source = given.identity_source or tenant.identity_source
        if source is None or source == ALLOCATED:
            if given.attached:
                raise InvalidRequest(
                    f"the cluster {given.id} is attached: its uids are not Clusterra's",
                    hint="give it an identity_source",
                )
            return None
        if await MapRecords(self._directory.store).source(MapRef(tenant_id, source)) is None:
            raise InvalidRequest(
                f"the tenant {tenant_id} has no identity source {source}", hint="add it by a provision file first"
            )
        return source

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
        record = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=given.slurm_key)
        if done := await put_agent_key(self._directory, record, key_hash):
            self.changes.append(f"agent key of {ref}: {done}")

    async def _reserve_operator(self, tenant: str, operator: SlurmUser) -> None:
        """Reserves the operator's name: a person with this name in their token would have its rights in Slurm."""
        if operator.uid >= FIRST_UID:
            raise InvalidRequest(
                f"the operator {operator.name} has uid {operator.uid}",
                hint=f"choose a lower one: uids from {FIRST_UID} on are for people",
            )
        reservation = UserNameReservation(uid=operator.uid, owner=OPERATOR)
        if await self._directory.add(user_name_key(tenant, operator.name), reservation):
            self.changes.append(f"user name {operator.name} of tenant {tenant}: reserved for the operator")
            return
        item = await self._directory.store.get(ACCOUNTS, user_name_key(tenant, operator.name))
        if item is None or UserNameReservation.of(item) != reservation:
            raise Conflict(
                f"the user name {operator.name} of tenant {tenant} is taken",
                hint="choose another name for the operator: a name keeps its owner and uid for good",
            )


def _first(given: TenantSpecification) -> Tenant:
    return Tenant(
        name=given.name,
        domains=tuple(dict.fromkeys(given.domains)),
        issuers=given.issuers,
        usd_per_hour=given.usd_per_hour,
        own_caps=given.own_caps(),
        identity_source=None if given.identity_source == ALLOCATED else given.identity_source,
    )


def _taken(tenant_id: str, current: Item | None) -> Conflict:
    if current is not None:
        refuse_deleted(tenant_id, Tenant.of(current))
    return Conflict(f"there is a tenant {tenant_id}", hint="choose another id, or change that tenant")
