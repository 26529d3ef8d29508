"""Reads and writes single items of the accounts table."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import batched

import structlog
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.page import Prefix
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Update, Write
from pydantic import ValidationError

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    CLUSTER_DELETIONS,
    CLUSTERS,
    DELETIONS,
    MEMBERSHIPS,
    cluster_key,
    deleted_cluster,
    domain_key,
    further_tenant,
    invitation_key,
    member_key,
    sent_invitation_key,
    tenant_key,
)
from clusterra_gateway.accounts.records import (
    ClusterDeletion,
    Domain,
    Invitation,
    Member,
    Record,
    SentInvitation,
    Tenant,
)
from clusterra_gateway.http.requests.errors import Conflict

log = structlog.get_logger()

READS_AT_ONCE = 20
MAX_FURTHER = 20
"""How many tenants a person may belong to besides their first one."""


class Directory:
    """Tenants, members and clusters. Writes of several items at once use `store` and `outbox` directly."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self.store = store
        self.outbox = outbox

    async def tenant(self, ref: TenantRef) -> Tenant | None:
        """A tenant; None when there is none."""
        return await self._read(tenant_key(ref.tenant), Tenant)

    async def member(self, member_id: str) -> Member | None:
        """A member; None when there is none."""
        return await self._read(member_key(member_id), Member)

    async def members(self, member_ids: Iterable[str]) -> tuple[Member, ...]:
        """The members with these ids that exist, in this order. Some are read at a time."""
        found: list[Member | None] = []
        for some in batched(member_ids, READS_AT_ONCE):
            found += await asyncio.gather(*map(self.member, some))
        return tuple(each for each in found if each is not None)

    async def memberships(self, member: Member) -> tuple[Member, ...]:
        """The members that a person is, in all tenants they belong to: the first one first."""
        page = await self.store.query(ACCOUNTS, member_key(member.first_id).pk, sort=MEMBERSHIPS, limit=MAX_FURTHER)
        further = (member.further_id(further_tenant(item.key)) for item in page.items)
        return await self.members((member.first_id, *further))

    async def tenant_unchanged(self, tenant: str) -> Update:
        """The write by which a transaction fails if another one with such a write comes first.

        It must be taken before what the transaction depends on is read. Raises Conflict for a tenant without a record.
        """
        item = await self.store.get(ACCOUNTS, tenant_key(tenant))
        if item is None:
            raise Conflict("this workspace has no record", hint="contact the operators")
        return Update(ACCOUNTS, item.key, condition=VersionIs(item.version))

    async def domain(self, domain: str) -> Domain | None:
        """An e-mail domain; None when no tenant has it."""
        return await self._read(domain_key(domain), Domain)

    async def invitation(self, email: str) -> Invitation | None:
        """The invitation of an e-mail address; None when there is none."""
        return await self._read(invitation_key(email), Invitation)

    async def sent_invitation(self, tenant: str, invitation_id: str) -> SentInvitation | None:
        """An invitation that an admin has made; None when there is none, or no longer."""
        return await self._read(sent_invitation_key(tenant, invitation_id), SentInvitation)

    async def clusters(self, tenant: str | None = None) -> dict[ClusterRef, ClusterBinding]:
        """All clusters of one tenant, or of all, by id, whose bindings can be read. The others are logged."""
        of_tenant = None if tenant is None else Prefix(f"{tenant}.")
        page = await self.store.query(ACCOUNTS, CLUSTERS, sort=of_tenant)
        clusters: dict[ClusterRef, ClusterBinding] = {}
        for item in page.items:
            try:
                clusters[ClusterRef.from_key(item.key.sk)] = _binding_of(item)
            except ValidationError as error:
                # Not the error's text: it repeats the record.
                log.error("cluster_unreadable", cluster=item.key.sk, problems=error.error_count())  # noqa: TRY400
        return clusters

    async def leaving(self) -> frozenset[ClusterRef]:
        """The clusters whose records are being removed: the registry lacks them for good."""
        page = await self.store.query(ACCOUNTS, DELETIONS, sort=CLUSTER_DELETIONS)
        return frozenset(
            deleted_cluster(item.key) for item in page.items if ClusterDeletion.of(item).removing_since is not None
        )

    async def cluster(self, ref: ClusterRef) -> ClusterBinding | None:
        """A cluster; None when there is none."""
        item = await self.store.get(ACCOUNTS, cluster_key(ref))
        return None if item is None else _binding_of(item)

    async def change_cluster(
        self,
        ref: ClusterRef,
        change: Callable[[ClusterBinding | None], ClusterBinding],
        messages: Sequence[OutboxMessage] = (),
        *,
        changed: Sequence[OutboxMessage] = (),
        provided: Sequence[Write] = (),
    ) -> int | None:
        """Writes what `change` makes of the stored binding (None: there is none), as its next version.

        Returns that version; None if `change` changes nothing. A new cluster keeps the version that `change` gives.
        `messages` are sent for a new cluster, `changed` for one that existed. After a conflicting write, `change` is
        applied again to what was written, so neither writer undoes the other. Raises ConditionFailed after several
        attempts, and what `change` raises.

        The writes `provided` happen in the same transaction. Then there is one attempt, which raises
        TransactionCancelled after any conflicting write: the caller reads anew what they depend on.
        """

        async def attempt() -> int | None:
            current = await self.store.get(ACCOUNTS, cluster_key(ref))
            known = None if current is None else _binding_of(current)
            binding = change(known)
            if current is None or known is None:
                put = Put(ACCOUNTS, cluster_key(ref), _attributes_of(binding), Absent())
                await self._write(put, messages, provided)
                return binding.version
            if known.model_copy(update={"version": binding.version}) == binding:
                return None
            following = binding.model_copy(update={"version": known.version + 1})
            condition = VersionIs(current.version)
            update = Update(ACCOUNTS, cluster_key(ref), set=_attributes_of(following), condition=condition)
            await self._write(update, changed, provided)
            return following.version

        return await (attempt() if provided else write_optimistically(attempt))

    async def _write(self, write: Put | Update, messages: Sequence[OutboxMessage], others: Sequence[Write]) -> None:
        if others:
            await self.outbox.transact(write, messages, others, token=f"directory-{secrets.token_hex(16)}")
        elif messages:
            await self.outbox.write(write, messages)
        else:
            await self.store.write(write)

    async def replace(self, key: Key, record: Record) -> bool:
        """Writes an item unless it is already the same. Returns whether it wrote.

        Raises ConditionFailed when another writer was faster.
        """
        current = await self.store.get(ACCOUNTS, key)
        if current is None:
            return await self.add(key, record)
        if type(record).of(current) == record:
            return False
        # Not a put: that would drop the unsent messages in the item's outbox.
        await self.store.write(Update(ACCOUNTS, key, set=record.attributes(), condition=VersionIs(current.version)))
        return True

    async def add(self, key: Key, record: Record) -> bool:
        """Writes an item unless one with this key exists. Returns whether it wrote."""
        try:
            await self.store.write(Put(ACCOUNTS, key, record.attributes(), Absent()))
        except ConditionFailed:
            return False
        return True

    async def _read[R: Record](self, key: Key, record: type[R]) -> R | None:
        item = await self.store.get(ACCOUNTS, key)
        return None if item is None else record.of(item)


def _binding_of(item: Item) -> ClusterBinding:
    return ClusterBinding.model_validate_json(str(item.attributes["binding"]))


def _attributes_of(binding: ClusterBinding) -> Attributes:
    return {"binding": binding.model_dump_json()}
