"""Creates, lists and deletes the service accounts of a tenant in the record."""

from typing import Annotated, Literal

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import UserName, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Delete, Put, Update, Write
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.addresses import reservation_of
from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.deactivated import deactivated_mark, no_deactivated_mark
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    API_TOKENS,
    SERVICE_ACCOUNTS,
    member_key,
    service_account_key,
    service_account_name,
    tenant_key,
    user_name_key,
)
from clusterra_gateway.accounts.records import (
    SERVICE_ACCOUNT_ISSUER,
    Member,
    UserNameReservation,
    service_account_id,
)
from clusterra_gateway.accounts.roles import SCOPES, Scope
from clusterra_gateway.accounts.slurm_identities import RESERVED, next_uid
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Body
from clusterra_gateway.identity.tokens.revocations import Revocations

log = structlog.get_logger()

MAX_SERVICE_ACCOUNTS = 100
"""How many a tenant may have."""


class CreateServiceAccount(Body):
    """The request for a new service account."""

    name: UserName
    """Its Slurm user name."""
    role: Literal["viewer", "member", "admin"] = "member"
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=len(SCOPES))] | None = None
    """What its keys may be used for at most; null for all that its role may do."""
    description: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class ServiceAccounts:
    """The service accounts of tenants. Every change is told in the events of the tenant's clusters."""

    def __init__(self, directory: Directory, registry: Registry, revocations: Revocations) -> None:
        self._directory = directory
        self._registry = registry
        self._revocations = revocations
        self._store = directory.store
        self._writes = AuditedWrites(directory, registry)

    async def all(self, tenant: str) -> tuple[Member, ...]:
        """The service accounts of a tenant, in the order of their names."""
        ids = [service_account_id(tenant, name) for name in await self._names(tenant)]
        return tuple(each for each in await self._directory.members(ids) if not each.deleted)

    async def one(self, tenant: str, name: str) -> Member:
        """A service account of this tenant. Raises NotFound."""
        return Member.of(await self._item(tenant, name))

    async def create(self, actor: Member, new: CreateServiceAccount) -> Member:
        """Creates a service account with a uid of its own. One that was deleted comes back with its uid, without keys.

        Raises InvalidRequest for a reserved name; Conflict for one that is taken, and for more than a tenant may have.
        """
        if new.name in RESERVED:
            raise InvalidRequest(f"the name {new.name} is reserved", hint="choose another one")
        fresh: int | None = None

        async def attempt() -> Member:
            nonlocal fresh
            # The tenant changes with each new account, so that two cannot both be the last one allowed.
            others: list[Write] = [await self._directory.tenant_unchanged(actor.tenant)]
            if len(await self._names(actor.tenant)) >= MAX_SERVICE_ACCOUNTS:
                raise Conflict(
                    f"there are {MAX_SERVICE_ACCOUNTS} service accounts, the most allowed", hint="delete an unused one"
                )
            reserved = await self._reserved_uid(actor.tenant, new.name)
            uid = reserved
            if uid is None:
                uid = fresh = fresh or await next_uid(self._store, actor.tenant)
            account = _account(actor.tenant, new, uid=uid)
            added = await self._added(account)
            others += [*_reserving(account, reserve=reserved is None), no_deactivated_mark(account)]
            fact = AdminFact(kind="user.created", actor=actor.user, subject=account.user)
            await self._writes.write(actor.tenant, [fact], added, others)
            log.info("service_account_created", tenant=account.tenant, name=account.user, uid=account.uid)
            return account

        return await write_optimistically(attempt, contended=_changed_by_others())

    async def delete(self, actor: Member, name: str) -> None:
        """Deletes a service account with all its keys. Its name and its uid stay its own. Raises NotFound, Conflict."""

        async def attempt() -> None:
            item = await self._item(actor.tenant, name)
            account = Member.of(item)
            gone = account.model_copy(update={"deleted": True, "disabled": True})
            update = Update(ACCOUNTS, item.key, set=gone.attributes(), condition=VersionIs(item.version))
            tokens = await self._store.query(ACCOUNTS, item.key.pk, sort=API_TOKENS)
            others: list[Write] = [
                Delete(ACCOUNTS, service_account_key(actor.tenant, name)),
                *(Delete(ACCOUNTS, token.key) for token in tokens.items),
                deactivated_mark(account, self._names_of(account)),
            ]
            fact = AdminFact(kind="member.deleted", actor=actor.user, subject=name)
            await self._writes.write(actor.tenant, [fact], update, others)
            log.info("service_account_deleted", tenant=account.tenant, name=name)

        await write_optimistically(attempt, contended=_changed_by_others())
        await self._revocations.member_changed(actor.tenant, name)

    def _names_of(self, account: Member) -> dict[str | None, UserName]:
        """Its name by identity source: it has the same one in all of them."""
        clusters = self._registry.clusters.items()
        return {binding.identity_source: account.user for ref, binding in clusters if ref.tenant == account.tenant}

    async def _names(self, tenant: str) -> list[str]:
        marks = await self._store.query(ACCOUNTS, tenant_key(tenant).pk, sort=SERVICE_ACCOUNTS)
        return [service_account_name(item.key) for item in marks.items]

    async def _item(self, tenant: str, name: str) -> Item:
        item = await self._store.get(ACCOUNTS, member_key(service_account_id(tenant, name)))
        if item is None or Member.of(item).deleted:
            raise NotFound("there is no such service account", hint="GET /v1/service-accounts lists them")
        return item

    async def _reserved_uid(self, tenant: str, name: str) -> int | None:
        """The uid that this name already has as a service account's; None for a new name. Raises Conflict."""
        item = await self._store.get(ACCOUNTS, user_name_key(tenant, name))
        if item is None:
            return None
        reservation = UserNameReservation.of(item)
        if reservation.owner != service_account_id(tenant, name):
            raise Conflict(f"the name {name} is taken", hint="choose another one: a name keeps its owner for good")
        return reservation.uid

    async def _added(self, account: Member) -> Put | Update:
        """The write of a new account, or of one that was deleted. Raises Conflict for one that is there."""
        key = member_key(account.id)
        known = await self._store.get(ACCOUNTS, key)
        if known is not None and not Member.of(known).deleted:
            raise Conflict(f"there is a service account {account.user}", hint="delete it first, or choose another name")
        if known is None:
            return Put(ACCOUNTS, key, account.attributes(), Absent())
        return Update(ACCOUNTS, key, set=account.attributes(), condition=VersionIs(known.version))


def _reserving(account: Member, *, reserve: bool) -> list[Write]:
    """The writes of an account's mark and, for a new name, of the reservation of its uid."""
    writes: list[Write] = [Put(ACCOUNTS, service_account_key(account.tenant, account.user), {}, Absent())]
    if reserve:
        key = user_name_key(account.tenant, account.user)
        writes.append(Put(ACCOUNTS, key, reservation_of(account).attributes(), Absent()))
    return writes


def _account(tenant: str, new: CreateServiceAccount, *, uid: int) -> Member:
    return Member(
        issuer=SERVICE_ACCOUNT_ISSUER,
        subject=f"{tenant}/{new.name}",
        tenant=tenant,
        user=new.name,
        uid=uid,
        email="",
        display_name=new.description,
        joined_at=now(),
        kind="service_account",
        scopes=new.scopes,
    ).with_role(new.role)


def _changed_by_others() -> Conflict:
    return Conflict("the service accounts of this workspace are being changed by others", hint="try again in a moment")
