"""Stores the bus credentials of tenants. Creation and revocation are conditional writes, with their audit events.

A revoked one leaves an item without content, until its event is sent. The authority is told first: a login that
was renewed meanwhile makes the write fail, and all is done again.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.bus_logins import MAX_BUS_CREDENTIALS, MAX_LOGIN_SECONDS
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, Update
from pydantic import ValidationError

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, bus_credential_key, bus_credentials_partition
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.bus_credentials.models import BusCredential
from clusterra_gateway.http.requests.errors import Conflict, NotFound

REVOKED = "revoked"
REVOKED_KEPT_SECONDS = MAX_LOGIN_SECONDS
"""How long it is known that one was revoked: NATS has the revocation of its key for as long."""
MAX_REVOKED = 200
"""The most revoked ones of a tenant in that time. Each makes the account at NATS larger that every change sends."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """A bus credential with the version of its item."""

    credential: BusCredential
    version: int


class BusCredentialRecords:
    """The bus credentials of all tenants. Every method may raise StoreUnavailable."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._audited = AuditedWrites(directory, registry)

    async def all(self, tenant: str) -> list[BusCredential]:
        """The bus credentials of a tenant, the oldest first."""
        found = [stored.credential for stored in await stored_credentials(self._directory.store, tenant)]
        return sorted(found, key=lambda each: each.created_at)

    async def get(self, tenant: str, credential_id: str) -> StoredCredential:
        """A bus credential of a tenant. Raises NotFound."""
        item = await self._directory.store.get(ACCOUNTS, bus_credential_key(tenant, credential_id))
        if item is None or (credential := _credential_of(item)) is None:
            raise NotFound("there is no such bus credential", hint="GET /v1/bus-credentials lists them")
        return StoredCredential(credential, item.version)

    async def check_room(self, tenant: str, public_key: str) -> None:
        """Raises Conflict for a tenant with as many as it may have, and for a key that another one has."""
        items = await _items(self._directory.store, tenant)
        present = [each for each in map(_credential_of, items) if each is not None]
        if sum(bool(item.attributes.get(REVOKED)) for item in items) >= MAX_REVOKED:
            detail = f"{MAX_REVOKED} bus credentials were revoked within a week, the most allowed"
            raise Conflict(detail, hint="renew those that you have: that needs no new key")
        if len(present) >= MAX_BUS_CREDENTIALS:
            detail = f"there are {MAX_BUS_CREDENTIALS} bus credentials, the most allowed"
            raise Conflict(detail, hint="revoke an unused one")
        if any(each.public_key == public_key for each in present):
            raise Conflict("a bus credential has this key already", hint="renew that one, or make a new key")

    async def create(self, actor: Member, credential: BusCredential) -> None:
        """Stores a new bus credential. Raises Conflict as `check_room` does."""
        key = bus_credential_key(actor.tenant, credential.id)

        async def attempt() -> None:
            # The tenant changes with each new one, so that two cannot both be the last one allowed.
            unchanged = await self._directory.tenant_unchanged(actor.tenant)
            await self.check_room(actor.tenant, credential.public_key)
            put = Put(ACCOUNTS, key, _attributes(credential), Absent())
            await self._audited.write(actor.tenant, [_fact(actor, credential, "credential.created")], put, [unchanged])

        await write_optimistically(attempt, contended=_contended())

    async def renewed(self, tenant: str, stored: StoredCredential, credential: BusCredential) -> None:
        """Stores when the new login ends. Raises Conflict if the credential was renewed or revoked meanwhile."""

        async def attempt() -> None:
            if (await self.get(tenant, credential.id)).version != stored.version:
                raise _contended()
            key = bus_credential_key(tenant, credential.id)
            condition = VersionIs(stored.version)
            await self._directory.store.write(Update(ACCOUNTS, key, set=_attributes(credential), condition=condition))

        await write_optimistically(attempt, contended=_contended())

    async def revoke(
        self, actor: Member, credential_id: str, revoke: Callable[[BusCredential], Awaitable[None]]
    ) -> None:
        """Removes a bus credential after `revoke` has cut it off. Raises NotFound, Conflict, and what `revoke` does."""

        async def attempt() -> None:
            stored = await self.get(actor.tenant, credential_id)
            await revoke(stored.credential)
            gone = Update(
                ACCOUNTS,
                bus_credential_key(actor.tenant, credential_id),
                set={REVOKED: True},
                remove=("credential",),
                condition=VersionIs(stored.version),
                expires_at=int(time.time()) + REVOKED_KEPT_SECONDS,
            )
            await self._audited.write(actor.tenant, [_fact(actor, stored.credential, "credential.revoked")], gone)

        await write_optimistically(attempt, contended=_contended())


async def stored_credentials(store: Store, tenant: str) -> list[StoredCredential]:
    """The bus credentials of a tenant that are not revoked. Raises StoreError."""
    found = list[StoredCredential]()
    for item in await _items(store, tenant):
        if (credential := _credential_of(item)) is not None:
            found.append(StoredCredential(credential, item.version))
    return found


async def _items(store: Store, tenant: str) -> list[Item]:
    """The items of a tenant's bus credentials, also of those that were revoked of late."""
    partition = bus_credentials_partition(tenant)
    return [item async for item in all_items(lambda after: store.query(ACCOUNTS, partition, cursor=after, limit=100))]


async def forget_cluster(store: Store, logins: BusLoginRequests, ref: ClusterRef) -> int:
    """Revokes and removes the bus credentials of a cluster. Returns how many. Raises StoreError, RpcFailed."""
    gone = [each for each in await stored_credentials(store, ref.tenant) if each.credential.cluster == ref.cluster]
    if gone:
        await logins.revoke(ref.tenant, *(each.credential.public_key for each in gone))
    await _delete(store, ref.tenant, gone)
    return len(gone)


async def cut_tenant(store: Store, logins: BusLoginRequests, tenant: str) -> None:
    """Revokes all logins of a tenant, if it has any bus credential, and removes those. Raises StoreError, RpcFailed."""
    while present := await stored_credentials(store, tenant):
        await logins.revoke_all(tenant)
        await _delete(store, tenant, present)


async def _delete(store: Store, tenant: str, revoked: list[StoredCredential]) -> None:
    """Removes credentials that are as they were when they were revoked. One that was renewed since stays for the next
    time: its new login has been handed out."""
    for each in revoked:
        key = bus_credential_key(tenant, each.credential.id)
        with suppress(ConditionFailed):
            await store.delete(Delete(ACCOUNTS, key, VersionIs(each.version)))


def _attributes(credential: BusCredential) -> Attributes:
    return {"credential": credential.model_dump_json()}


def _credential_of(item: Item) -> BusCredential | None:
    if item.attributes.get(REVOKED):
        return None
    try:
        return BusCredential.model_validate_json(str(item.attributes.get("credential", "")))
    except ValidationError as error:
        log.error("bus_credential_unreadable", key=item.key.sk, problems=error.error_count())  # noqa: TRY400
        return None


def _fact(actor: Member, credential: BusCredential, kind: AdminKind) -> AdminFact:
    return AdminFact(kind=kind, actor=actor.user, subject=credential.id, detail=credential.name)


def _contended() -> Conflict:
    return Conflict("this bus credential is being changed by others", hint="try again in a moment")
