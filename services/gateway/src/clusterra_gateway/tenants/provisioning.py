"""Writes the tenants, people and clusters of a provision file to the gateway's record.

Applying a file again changes nothing. What the file does not name stays as it is, with one exception: a cluster that
the file names without an agent key loses its key.
"""

from collections.abc import Mapping

from clusterra_contracts.agent_http import is_key
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable
from clusterra_runtime.store.item import Key

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key, invitation_key, tenant_key, user_name_key
from clusterra_gateway.accounts.records import OPERATOR, Domain, Invitation, Tenant, UserNameReservation
from clusterra_gateway.accounts.uids import FIRST_UID
from clusterra_gateway.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.http.errors import Conflict, InvalidRequest
from clusterra_gateway.identity.credentials import secret_hash
from clusterra_gateway.tenants.given import Given, GivenCluster

ACTOR = "provision"


class Provisioning:
    """Writes what the record lacks of a file. `changes` describes each change in words.

    `registered` are the bindings that the services know. They ignore versions that are not higher, also of a cluster
    that the record lacks because its removal was interrupted.
    """

    def __init__(
        self,
        directory: Directory,
        default_catalogue: Catalogue | None,
        registered: Mapping[ClusterRef, ClusterBinding] | None = None,
    ) -> None:
        self._directory = directory
        self._default_catalogue = default_catalogue
        self._registered = registered or {}
        self.changes: list[str] = []

    async def apply(self, given: Given) -> None:
        """Writes what differs. Raises Conflict for what belongs to another tenant, InvalidRequest, StoreError."""
        for tenant in given.tenants:
            if await self._directory.replace(tenant_key(tenant.id), Tenant(name=tenant.name)):
                self.changes.append(f"tenant {tenant.id}")
            for domain in tenant.domains:
                await self._assign(
                    f"domain {domain}", domain_key(domain), Domain(tenant=tenant.id, issuers=tenant.issuers)
                )
        for tenant in given.tenants:
            for email in sorted({*tenant.admins, *tenant.members}):
                await self._refuse_address_of_another(tenant.id, email)
                invitation = Invitation(tenant=tenant.id, admin=email in tenant.admins)
                await self._assign(f"invitation of {email}", invitation_key(email), invitation)
            caps = tenant.caps()
            for cluster in tenant.clusters:
                policy = cluster.policy.model_copy(update={"usd_per_hour": caps[cluster.id]})
                await self._put_cluster(tenant.id, cluster.model_copy(update={"policy": policy}))

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

    async def _put_cluster(self, tenant: str, given: GivenCluster) -> None:
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

        def as_given(current: ClusterBinding | None) -> ClusterBinding:
            # `pause` and `resume` decide the state; a file has no say in it.
            state = "active" if current is None else current.state
            return ClusterBinding(**{**dict(given), "catalogue": shapes, "state": state, "version": first_version})

        registered = AdminFact(kind="cluster.registered", actor=ACTOR, subject=given.id)
        version = await self._directory.change_cluster(ref, as_given, [cluster_event(ref, registered, version="1")])
        if version is not None:
            self.changes.append(f"cluster {tenant}/{given.id}: version {version}")
        await self._put_agent_key(ref, given)

    async def _put_agent_key(self, ref: ClusterRef, given: GivenCluster) -> None:
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
