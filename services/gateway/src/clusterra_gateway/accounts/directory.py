"""The gateway's record of tenants, people and clusters: one table."""

from collections.abc import Sequence

from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.outbox import OUTBOX, Outbox, OutboxMessage
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Table, Update

from clusterra_gateway.accounts.records import Domain, Invitation, Member, Record, Tenant

ACCOUNTS = Table("accounts", indexes=(OUTBOX,))

CLUSTERS = "clusters"
"""The partition of all clusters, so that they can be listed."""


def tenant_key(tenant: str) -> Key:
    """Where a tenant's own item is."""
    return Key(f"tenant#{tenant}", "tenant")


def uid_key(tenant: str) -> Key:
    """Where a tenant's last given uid is counted."""
    return Key(f"tenant#{tenant}", "uid")


def name_key(tenant: str, name: str) -> Key:
    """Where a tenant's Slurm user name is reserved."""
    return Key(f"tenant#{tenant}", f"name#{name}")


def domain_key(domain: str) -> Key:
    """Where an e-mail domain's tenant is."""
    return Key(f"domain#{domain.lower()}", "domain")


def invitation_key(email: str) -> Key:
    """Where an e-mail address' invitation is."""
    return Key(f"email#{email.lower()}", "invitation")


def member_key(member: str) -> Key:
    """Where a person is."""
    return Key(f"member#{member}", "member")


def cluster_key(ref: ClusterRef) -> Key:
    """Where a cluster's binding is."""
    return Key(CLUSTERS, ref.key)


class Directory:
    """Reads and writes of single items. How a person joins is `joining`'s."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self.store = store
        self.outbox = outbox

    async def tenant(self, ref: TenantRef) -> Tenant | None:
        """A tenant, None when there is none."""
        return await self._read(tenant_key(ref.tenant), Tenant)

    async def member(self, member_id: str) -> Member | None:
        """A person by id."""
        return await self._read(member_key(member_id), Member)

    async def domain(self, domain: str) -> Domain | None:
        """What an e-mail domain stands for."""
        return await self._read(domain_key(domain), Domain)

    async def invitation(self, email: str) -> Invitation | None:
        """What an e-mail address was invited to."""
        return await self._read(invitation_key(email), Invitation)

    async def clusters(self) -> dict[ClusterRef, ClusterBinding]:
        """All clusters of all tenants."""
        page = await self.store.query(ACCOUNTS, CLUSTERS)
        return {ClusterRef.from_key(item.key.sk): binding_of(item) for item in page.items}

    async def put_cluster(
        self, ref: ClusterRef, binding: ClusterBinding, messages: Sequence[OutboxMessage]
    ) -> int | None:
        """Write a binding as its next version, which is returned; None when it is there just so.

        The messages go with the first version. Raises ConditionFailed when overtaken.
        """
        key = cluster_key(ref)
        current = await self.store.get(ACCOUNTS, key)
        if current is None:
            first = binding.model_copy(update={"version": 1})
            await self.outbox.write(Put(ACCOUNTS, key, _held(first), Absent()), messages)
            return 1
        known = binding_of(current)
        if known.model_copy(update={"version": binding.version}) == binding:
            return None
        following = binding.model_copy(update={"version": known.version + 1})
        await self.store.write(Update(ACCOUNTS, key, set=_held(following), condition=VersionIs(current.version)))
        return following.version

    async def replace(self, key: Key, record: Record) -> bool:
        """Write an item unless it says so already; whether it was written. Raises ConditionFailed when overtaken."""
        current = await self.store.get(ACCOUNTS, key)
        if current is None:
            return await self.add(key, record)
        if type(record).of(current) == record:
            return False
        # An update, for a put would drop what waits in the item's outbox.
        await self.store.write(Update(ACCOUNTS, key, set=record.attributes(), condition=VersionIs(current.version)))
        return True

    async def add(self, key: Key, record: Record) -> bool:
        """Write an item that is not there yet; whether it was written."""
        try:
            await self.store.write(Put(ACCOUNTS, key, record.attributes(), Absent()))
        except ConditionFailed:
            return False
        return True

    async def _read[R: Record](self, key: Key, record: type[R]) -> R | None:
        item = await self.store.get(ACCOUNTS, key)
        return None if item is None else record.of(item)


def binding_of(item: Item) -> ClusterBinding:
    """The binding that a cluster's item holds."""
    return ClusterBinding.model_validate_json(str(item.attributes["binding"]))


def _held(binding: ClusterBinding) -> Attributes:
    return {"binding": binding.model_dump_json()}
