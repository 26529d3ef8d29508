"""Writes changes of provisioned users and groups: one transaction each, with its event and the count of changes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import TenantRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs, at_most
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update, Write
from scim2_models import UniquenessException

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    ScimIndex,
    ScimKind,
    scim_index_key,
    scim_resource_key,
    scim_state_key,
)
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.scim.provisioned import Found
from clusterra_gateway.directory.scim.resources import CoreUser, Group, IndexMark, StoredGroup, StoredUser, User
from clusterra_gateway.http.requests.errors import Conflict

ATTEMPTS = 8
"""Attempts to write while others change the same resource."""
MAX_USERS = 10_000
MAX_GROUPS = 500
"""How many a directory may provision in a tenant."""
_MOST = {"user": MAX_USERS, "group": MAX_GROUPS}
_NAMES = {"user": "userName", "group": "displayName"}

type Change = Literal["created", "changed", "deleted"]
_MORE: dict[Change, int] = {"created": 1, "changed": 0, "deleted": -1}


class Changes:
    """The transactions of provisioned resources. All methods may raise StoreError."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._writes = AuditedWrites(directory, registry)

    async def refuse_deleted(self, tenant: str) -> None:
        """Raises Conflict for a tenant that is being deleted: nothing is added to it any more."""
        found = await self._directory.tenant(TenantRef(tenant=tenant))
        if found is None or found.deletion is not None:
            raise Conflict("this workspace is being deleted", hint="contact the operators")

    async def create[S: (StoredUser, StoredGroup)](
        self, actor: Member, kind: ScimKind, resource_id: str, stored: S, others: Sequence[Write]
    ) -> Found[S]:
        """Writes a new resource, with its event, and `others`.

        Raises UniquenessException for a name that is taken, Conflict for more than a tenant may have, and
        TransactionCancelled where another writer was faster.
        """
        put = Put(ACCOUNTS, scim_resource_key(actor.tenant, kind, resource_id), stored.attributes(), Absent())
        await self._write(actor, kind, "created", put, others)
        return Found(resource_id, stored, 1)

    async def replace[S: (StoredUser, StoredGroup)](
        self, actor: Member, kind: ScimKind, found: Found[S], after: S, others: Sequence[Write]
    ) -> Found[S]:
        """Writes a resource in place of the one that was found. Raises as `create`."""
        key, unchanged = scim_resource_key(actor.tenant, kind, found.id), VersionIs(found.version)
        update = Update(ACCOUNTS, key, set=after.attributes(), condition=unchanged)
        await self._write(actor, kind, "changed", update, others)
        return Found(found.id, after, found.version + 1)

    async def delete[S: (StoredUser, StoredGroup)](
        self, actor: Member, kind: ScimKind, found: Found[S], others: Sequence[Write]
    ) -> None:
        """Removes the resource that was found. Raises as `create`."""
        key = scim_resource_key(actor.tenant, kind, found.id)
        await self._write(actor, kind, "deleted", Delete(ACCOUNTS, key, VersionIs(found.version)), others)

    async def _write(
        self, actor: Member, kind: ScimKind, change: Change, resource: Put | Update | Delete, others: Sequence[Write]
    ) -> None:
        subject = resource.key.sk.removeprefix(f"{kind}#")
        fact = AdminFact.model_validate({"kind": f"scim.{kind}_{change}", "actor": actor.user, "subject": subject})
        counts = _counted(actor.tenant, kind, _MORE[change])
        # What is gone cannot hold the event until it is sent.
        carrier, further = (counts, resource) if isinstance(resource, Delete) else (resource, counts)
        try:
            await self._writes.write(actor.tenant, [fact], carrier, [*others, further])
        except TransactionCancelled as cancelled:
            _refuse(cancelled)
            raise


async def settled[T](attempt: Callable[[], Awaitable[T]]) -> T:
    """What `attempt` returns, which reads resources and changes them. Raises Conflict while others change the same."""
    contended = Conflict("others are changing the same users and groups", hint="try again in a moment")
    return await write_optimistically(attempt, contended=contended, attempts=ATTEMPTS)


def reindexed(
    tenant: str, kind: ScimKind, resource_id: str, before: User | Group | None, after: User | Group | None
) -> list[Write]:
    """The writes that move the index entries of a resource from its old name and externalId to the new ones."""
    writes: list[Write] = []
    for index in ("name", "external"):
        old, new = (_index_key(tenant, kind, index, each) for each in (before, after))
        if old is not None and old != new:
            writes.append(Delete(ACCOUNTS, old))
        if new is not None and old != new:
            writes.append(Put(ACCOUNTS, new, IndexMark(resource_id=resource_id).attributes(), Absent()))
    return writes


def _index_key(tenant: str, kind: ScimKind, index: ScimIndex, resource: User | Group | None) -> Key | None:
    if resource is None:
        return None
    name = resource.user_name if isinstance(resource, CoreUser) else resource.display_name
    value = name if index == "name" else resource.external_id
    return scim_index_key(tenant, kind, index, value) if value else None


def _counted(tenant: str, kind: ScimKind, by: int) -> Update:
    """The write that counts a change, and how many there are: `by` 1 more, 1 less (-1), or as many as before (0)."""
    name = f"{kind}s"
    if by > 0:
        return Update(ACCOUNTS, scim_state_key(tenant), add={name: by}, condition=at_most(name, _MOST[kind] - 1))
    return Update(ACCOUNTS, scim_state_key(tenant), add={name: by} if by else {})


def _refuse(cancelled: TransactionCancelled) -> None:
    """Raises the error for what no repetition can change."""
    for sk in (reason.write.key.sk for reason in cancelled.reasons if reason is not None):
        for kind, name in _NAMES.items():
            for index, attribute in (("name", name), ("external", "externalId")):
                if sk.startswith(f"{kind}-{index}#"):
                    raise UniquenessException(detail=f"another {kind} has this {attribute}")
        if sk == "state":
            raise Conflict(f"a workspace has at most {MAX_USERS} users and {MAX_GROUPS} groups", hint="delete some")
