"""The rules of a tenant's clusters: how one is bound, changed and removed, over HTTP or from a provision file."""

from collections.abc import Collection
from functools import partial

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, AddressRefused, Outbound
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Delete

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_key, user_name_key
from clusterra_gateway.accounts.records import ALLOCATED, OPERATOR, Tenant, UserNameReservation
from clusterra_gateway.accounts.slurm_identities import FIRST_UID
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key, put_slurm_key
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.tenants.shares import share_out, shares
from clusterra_gateway.tenants.specification import BindingFields, ClusterFields
from clusterra_gateway.tenants.tenant_record import change_tenant, existing, refuse_deleted

log = structlog.get_logger()


class TenantClusters:
    """The clusters of all tenants. Whoever uses it has checked that an operator asks.

    `registry` has the bindings that the services know. They ignore versions that are not higher, also of a cluster that
    the record lacks because its removal was interrupted.
    """

    def __init__(
        self,
        directory: Directory,
        registry: Registry,
        default_catalogue: Catalogue | None,
        outbound: Outbound = DEFAULT_OUTBOUND,
    ) -> None:
        self._directory = directory
        self._registry = registry
        self._default_catalogue = default_catalogue
        self._outbound = outbound

    async def list(self, tenant_id: str) -> dict[ClusterRef, ClusterBinding]:
        """The clusters of a tenant, by id. Raises NotFound."""
        await existing(self._directory, tenant_id)
        return await self._directory.clusters(tenant_id)

    async def get(self, ref: ClusterRef) -> ClusterBinding:
        """A cluster of a tenant. Raises NotFound."""
        binding = await self._directory.cluster(ref)
        if binding is None:
            raise NotFound(f"the tenant {ref.tenant} has no cluster {ref.cluster}", hint="list its clusters")
        return binding

    async def bind(self, tenant_id: str, given: ClusterFields, key: str, *, by: str) -> int:
        """Binds a cluster, whose agent gets this key. Returns the binding's version.

        Raises NotFound, Conflict for one that exists or a cap that does not suffice, InvalidRequest.
        """
        ref = ClusterRef(tenant=tenant_id, cluster=given.id)
        refuse_deleted(tenant_id, await existing(self._directory, tenant_id))
        if await self._directory.cluster(ref) is not None:
            raise Conflict(f"the tenant {tenant_id} has a cluster {given.id}", hint="choose another id, or delete it")
        await self.check_addresses(given)
        await self._set_own_cap(ref, given)
        version = await self.put(ref, given, {given.id}, by=by, new=True) or 1
        owner = AgentKeyOwner(tenant=tenant_id, cluster=given.id, slurm_key=given.slurm_key)
        await put_agent_key(self._directory, owner, secret_hash(key))
        return version

    async def rebind(self, ref: ClusterRef, given: BindingFields, *, by: str) -> ClusterBinding:
        """Gives a cluster this binding in place of the present one. Raises NotFound, Conflict, InvalidRequest."""
        refuse_deleted(ref.tenant, await existing(self._directory, ref.tenant))
        if (await self.get(ref)).deleting:
            raise Conflict(f"the cluster {ref.cluster} is being deleted", hint="a deletion cannot be taken back")
        fields = ClusterFields(id=ref.cluster, **dict(given))
        await self.check_addresses(fields)
        await self._set_own_cap(ref, fields)
        await self.put(ref, fields, by=by)
        await put_slurm_key(self._directory, ref, fields.slurm_key)
        return await self.get(ref)

    async def check_addresses(self, given: BindingFields) -> None:
        """Raises InvalidRequest for an address of the binding that no service may call."""
        storage = given.storage
        named = {"slurmrestd_url": given.slurmrestd_url}
        if storage is not None:
            named |= {
                "storage.endpoint": storage.endpoint or "",
                "storage.public_endpoint": storage.public_endpoint or "",
            }
        for name, url in named.items():
            await check_address(self._outbound, name, url)

    async def put(
        self, ref: ClusterRef, given: ClusterFields, expected: Collection[str] = (), *, by: str, new: bool = False
    ) -> int | None:
        """Makes or changes a cluster of a tenant that knows its cap. Returns its version; None where nothing changes.

        Raises NotFound, InvalidRequest, and Conflict for a `new` one that exists or a cap that does not suffice.
        """
        shapes = self._shapes(given)
        await self._reserve_operator(ref.tenant, given.operator)
        orphan = self._registry.get(ref)
        first_version = 1 if orphan is None else orphan.version + 1

        def as_given(current: ClusterBinding | None, policy: ScalingPolicy, source: str | None) -> ClusterBinding:
            if current is not None and (new or current.deleting):
                state = "being deleted" if current.deleting else "there"
                raise Conflict(f"the cluster {ref} is {state}", hint="choose another id, or wait until it is deleted")
            # `pause` and `resume` decide the state; what is given has no say in it.
            kept = {"state": "active" if current is None else current.state, "version": first_version}
            moved = current is None or current.slurmrestd_url != given.slurmrestd_url
            bound_at = now() if moved or current is None else current.bound_at
            decided = {"policy": policy, "catalogue": shapes, "identity_source": source, "bound_at": bound_at}
            return ClusterBinding(**{**dict(given), **decided, **kept})

        registered = AdminFact(kind="cluster.registered", actor=by, subject=ref.cluster)
        changed = AdminFact(kind="cluster.changed", actor=by, subject=ref.cluster)

        async def attempt() -> int | None:
            # No lower cap of the tenant comes between this share of it and the write.
            unchanged = await self._directory.tenant_unchanged(ref.tenant)
            tenant = await existing(self._directory, ref.tenant)
            caps = await shares(self._directory, ref.tenant, tenant, {*expected, ref.cluster})
            policy = given.policy.model_copy(update={"usd_per_hour": caps[ref.cluster]})
            source = await self._identity_source(ref.tenant, tenant, given)
            return await self._directory.change_cluster(
                ref,
                partial(as_given, policy=policy, source=source),
                [cluster_event(ref, registered, version="1")],
                changed=[cluster_event(ref, changed, version=now().isoformat())],
                provided=[unchanged],
            )

        contended = Conflict(f"others are changing the tenant {ref.tenant} or this cluster", hint="try again")
        version = await write_optimistically(attempt, contended=contended)
        if version is not None:
            log.info("cluster_put", tenant=ref.tenant, cluster=ref.cluster, version=version)
        return version

    async def remove(self, ref: ClusterRef) -> None:
        """Removes a cluster from the record, with its agent key. `give_share_back` then raises the others' caps."""
        await put_agent_key(self._directory, AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster), None)
        await self._directory.store.delete(Delete(ACCOUNTS, cluster_key(ref)))

    async def _set_own_cap(self, ref: ClusterRef, given: ClusterFields) -> None:
        """Writes a cluster's own cap, and gives the others what is left. Raises Conflict, InvalidRequest."""
        expected = {ref.cluster}

        async def with_cap(tenant: Tenant) -> Tenant:
            refuse_deleted(ref.tenant, tenant)
            self._shapes(given)
            _refuse_uid_of_people(given.operator)
            await self._identity_source(ref.tenant, tenant, given)
            own_caps = {**tenant.own_caps, ref.cluster: given.policy.usd_per_hour}
            changed = tenant.model_copy(update={"own_caps": own_caps})
            await shares(self._directory, ref.tenant, changed, expected)
            return changed

        await change_tenant(self._directory, self._registry, ref.tenant, with_cap)
        await share_out(self._directory, ref.tenant, expected)

    def _shapes(self, given: ClusterFields) -> Catalogue:
        shapes = given.catalogue or self._default_catalogue
        if shapes is None:
            raise InvalidRequest(
                f"cluster {given.id} has no catalogue of shapes",
                hint="set CLUSTERRA_CATALOGUE_FILE, or add a `catalogue` to the cluster",
            )
        return shapes

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

    async def _reserve_operator(self, tenant: str, operator: SlurmUser) -> None:
        """Reserves the operator's name: a person with this name in their token would have its rights in Slurm."""
        _refuse_uid_of_people(operator)
        reservation = UserNameReservation(uid=operator.uid, owner=OPERATOR)
        if await self._directory.add(user_name_key(tenant, operator.name), reservation):
            return
        item = await self._directory.store.get(ACCOUNTS, user_name_key(tenant, operator.name))
        if item is None or UserNameReservation.of(item) != reservation:
            raise Conflict(
                f"the user name {operator.name} of tenant {tenant} is taken",
                hint="choose another name for the operator: a name keeps its owner and uid for good",
            )


async def check_address(outbound: Outbound, name: str, url: str) -> None:
    """Raises InvalidRequest for an address that no service may call. `name` is the field's."""
    try:
        await outbound.check_url(url)
    except AddressRefused as refused:
        raise InvalidRequest(
            f"{name}: {refused}",
            hint="give the address of the server itself; where it has none but this, the operators allow its network"
            " (CLUSTERRA_OUTBOUND_ALLOWED)",
        ) from None


def _refuse_uid_of_people(operator: SlurmUser) -> None:
    if operator.uid >= FIRST_UID:
        raise InvalidRequest(
            f"the operator {operator.name} has uid {operator.uid}",
            hint=f"choose a lower one: uids from {FIRST_UID} on are for people",
        )
