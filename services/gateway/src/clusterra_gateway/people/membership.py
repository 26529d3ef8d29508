"""Reads and changes the members of a tenant in the record."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.page import InvalidCursor
from clusterra_runtime.store.store import Update, Write

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.deactivated import deactivated_mark, no_deactivated_mark
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, USER_NAMES, member_key, tenant_key
from clusterra_gateway.accounts.records import OPERATOR, Member, UserNameReservation
from clusterra_gateway.accounts.roles import Role, manages
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clusterra_gateway.identity.access.unix_users import Deactivations, UnixUsers
from clusterra_gateway.identity.tokens.revocations import Revocations

log = structlog.get_logger()


@dataclass(frozen=True)
class MemberChange:
    """What an admin changes about a member; None keeps it."""

    role: Role | None = None
    disabled: bool | None = None
    by_directory: bool = False
    """Whether the tenant's directory wants it. It decides about owners, too, but never about the last one."""


class Membership:
    """The members of tenants. Every change is told in the events of the tenant's clusters."""

    def __init__(
        self,
        directory: Directory,
        deactivations: Deactivations,
        unix_users: UnixUsers,
        registry: Registry,
        revocations: Revocations,
    ) -> None:
        self._directory = directory
        self._deactivations = deactivations
        self._unix_users = unix_users
        self._registry = registry
        self._revocations = revocations
        self._writes = AuditedWrites(directory, registry)

    async def page(self, tenant: str, *, limit: int, cursor: str | None) -> tuple[tuple[Member, ...], str | None]:
        """At most `limit` members in the order of their user names, and the next cursor. Raises InvalidRequest."""
        partition = tenant_key(tenant).pk
        try:
            page = await self._directory.store.query(ACCOUNTS, partition, sort=USER_NAMES, cursor=cursor, limit=limit)
        except InvalidCursor:
            raise InvalidRequest("the cursor is not one of this list", hint="begin again without a cursor") from None
        owners = [UserNameReservation.of(item).owner for item in page.items]
        found = await self._directory.members(owner for owner in owners if owner != OPERATOR)
        return tuple(each for each in found if _listed(each, tenant)), page.cursor

    async def everybody(self, tenant: str) -> AsyncIterator[Member]:
        """All members of a tenant, in the order of their user names."""
        cursor = None
        while True:
            members, cursor = await self.page(tenant, limit=100, cursor=cursor)
            for each in members:
                yield each
            if cursor is None:
                return

    async def member(self, tenant: str, member_id: str) -> Member:
        """A member of this tenant. Raises NotFound, also for another tenant's."""
        return Member.of(await self._item(tenant, member_id))

    async def change(self, actor: Member, member_id: str, change: MemberChange) -> Member:
        """Changes a member of the actor's tenant, and returns the member as changed.

        It counts everywhere within a second, for each of their credentials.

        Raises NotFound; Forbidden where only an owner may do this; Conflict where nobody would be left to manage the
        tenant, or where others change its members at the same moment.
        """

        async def attempt() -> Member:
            item = await self._item(actor.tenant, member_id)
            member = Member.of(item)
            if member.kind == "service_account" and change.role == "owner":
                raise Forbidden("a service account cannot be an owner", hint="make it an admin at most")
            changed = _changed(member, change)
            if changed == member:
                return member
            if not change.by_directory:
                await self._refuse(actor, member, changed)
            update = Update(ACCOUNTS, item.key, set=changed.attributes(), condition=VersionIs(item.version))
            others: list[Write] = []
            if change.by_directory and _owns(member) and not _owns(changed):
                others.append(await self._while_another(member, _owns, "owner"))
            elif _in_charge(member) and not _in_charge(changed):
                others.append(await self._while_another(member, _in_charge, "admin"))
            if changed.disabled != member.disabled:
                others.append(await self._marked(changed))
            fact = AdminFact(
                kind="member.changed",
                actor=actor.user,
                subject=changed.user,
                before=_standing(member),
                after=_standing(changed),
            )
            await self._writes.write(actor.tenant, [fact], update, others)
            log.info("member_changed", member=member.user, role=changed.role, disabled=changed.disabled)
            return changed

        contended = Conflict("the members of this workspace are being changed by others", hint="try again in a moment")
        member = await write_optimistically(attempt, contended=contended)
        await self._revocations.member_changed(member.tenant, member.user)
        return member

    async def _marked(self, changed: Member) -> Write:
        """The write that has Slurm refuse the member's jobs from now on, or accept them again."""
        if not changed.disabled:
            return no_deactivated_mark(changed)
        users = await self._unix_users.by_source(changed, self._registry.clusters)
        return deactivated_mark(changed, {source: user.name for source, user in users.items()})

    async def _item(self, tenant: str, member_id: str) -> Item:
        item = await self._directory.store.get(ACCOUNTS, member_key(member_id))
        if item is None or not _listed(Member.of(item), tenant):
            raise NotFound("there is no such member", hint="GET /v1/members lists those of your workspace")
        return item

    async def _refuse(self, actor: Member, member: Member, changed: Member) -> None:
        """Raises Forbidden for what only an owner may do, Conflict for what the tenant's directory has decided."""
        if "owner" in (member.role, changed.role) and actor.role != "owner":
            raise Forbidden("only an owner may do this to an owner", hint="ask an owner of your workspace")
        enabled = member.disabled and not changed.disabled
        if enabled and await self._deactivations.deactivated(member.tenant, member.email):
            raise Conflict(
                f"the directory of your workspace has deactivated {member.user}", hint="activate the person there"
            )

    async def _while_another(self, member: Member, in_charge: Callable[[Member], bool], role: Role) -> Write:
        """A write that fails if another one of these happens first, so that the last two do not remove each other."""
        unchanged = await self._directory.tenant_unchanged(member.tenant)
        async for each in self.everybody(member.tenant):
            if each.id != member.id and in_charge(each):
                return unchanged
        what = "the last owner of" if role == "owner" else "the last who manages"
        raise Conflict(f"{member.user} is {what} this workspace", hint=f"make another member an {role} first")


def _changed(member: Member, change: MemberChange) -> Member:
    changed = member
    if change.role is not None and change.role != member.role:
        changed = changed.with_role(change.role, given_at=now())
    if change.disabled is not None:
        changed = changed.model_copy(update={"disabled": change.disabled})
    return changed


def _standing(member: Member) -> str:
    """The role, and whether the member is disabled, as events tell it."""
    return f"{member.role} (disabled)" if member.disabled else member.role


def _listed(member: Member, tenant: str) -> bool:
    return member.tenant == tenant and not member.deleted


def _in_charge(member: Member) -> bool:
    """Whether this is a person who manages the tenant: a service account cannot sign in when its keys are lost."""
    return member.kind == "person" and manages(member.role) and not member.disabled


def _owns(member: Member) -> bool:
    return member.kind == "person" and member.role == "owner" and not member.disabled
