"""Writes changes of provisioned users and groups: one transaction each, with its event and the count of changes."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import TenantRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, at_most
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update, Write
from scim2_models import UniquenessException

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, ScimIndex, ScimKind, scim_index_key, scim_state_key
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.provisioned.records import IndexMark
from clusterra_gateway.http.requests.errors import Conflict

ATTEMPTS = 8
"""Attempts to write while others change the same resource."""
MAX_USERS = 10_000
MAX_GROUPS = 500
"""How many a directory may provision in a tenant."""
_MOST = {"user": MAX_USERS, "group": MAX_GROUPS}
_NAMES = {"user": "userName", "group": "displayName"}


@dataclass(frozen=True, slots=True)
class Told:
    """Who changes what, for the event."""

    actor: Member
    kind: AdminKind
    subject: str


class Changes:
    """The transactions of provisioned resources. All methods may raise StoreError."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def refuse_deleted(self, tenant: str) -> None:
        """Raises Conflict for a tenant that is being deleted: nothing is added to it any more."""
        found = await self._directory.tenant(TenantRef(tenant=tenant))
        if found is None or found.deletion is not None:
            raise Conflict("this workspace is being deleted", hint="contact the operators")

    async def written(
        self, told: Told, resource: Put | Update | Delete, others: Sequence[Write], counts: Update
    ) -> bool:
        """Applies the writes and sends their event. Returns False where another writer was faster.

        `counts` is the write of the tenant's counters (`counted`). Raises UniquenessException for a name that is
        taken, Conflict for more than a tenant may have.
        """
        fact = AdminFact(kind=told.kind, actor=told.actor.user, subject=told.subject)
        events = tenant_events(self._registry, told.actor.tenant, fact, version=secrets.token_hex(8))
        # What is gone cannot hold the event until it is sent.
        carrier, further = (counts, resource) if isinstance(resource, Delete) else (resource, counts)
        beside, token = [*others, further, *events.kept], f"scim-{secrets.token_hex(16)}"
        try:
            await self._directory.outbox.transact(carrier, events.messages, beside, token=token)
        except TransactionCancelled as cancelled:
            _refuse([carrier, *beside], cancelled)
            return False
        return True


def counted(tenant: str, kind: ScimKind, by: int) -> Update:
    """The write that counts a change, and how many there are: `by` 1 more, 1 less (-1), or as many as before (0)."""
    name = f"{kind}s"
    if by > 0:
        return Update(ACCOUNTS, scim_state_key(tenant), add={name: by}, condition=at_most(name, _MOST[kind] - 1))
    return Update(ACCOUNTS, scim_state_key(tenant), add={name: by} if by else {})


def reindexed(
    tenant: str, kind: ScimKind, index: ScimIndex, resource_id: str, change: tuple[str | None, str | None]
) -> list[Write]:
    """The writes that move a resource's index entry from its old value to its new one."""
    before, after = (scim_index_key(tenant, kind, index, value) if value else None for value in change)
    writes: list[Write] = []
    if before is not None and before != after:
        writes.append(Delete(ACCOUNTS, before))
    if after is not None and before != after:
        writes.append(Put(ACCOUNTS, after, IndexMark(resource_id=resource_id).attributes(), Absent()))
    return writes


def changed_by_others() -> Conflict:
    """The error after all attempts."""
    return Conflict("others are changing the same users and groups", hint="try again in a moment")


def _refuse(writes: Sequence[Write], cancelled: TransactionCancelled) -> None:
    """Raises the error for what no repetition can change."""
    for write, reason in zip(writes, cancelled.reasons, strict=True):
        if reason is None:
            continue
        for kind, name in _NAMES.items():
            for index, attribute in (("name", name), ("external", "externalId")):
                if write.key.sk.startswith(f"{kind}-{index}#"):
                    raise UniquenessException(detail=f"another {kind} has this {attribute}")
        if write.key.sk == "state":
            raise Conflict(f"a workspace has at most {MAX_USERS} users and {MAX_GROUPS} groups", hint="delete some")
