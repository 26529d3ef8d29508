"""Provisions people: what their directory says decides whether they may sign in, and what their tokens still do.

A provisioned user becomes a member at their first sign-in. So a change of the directory finds the members of the user's
addresses, disables them, and then writes the user, if no such sign-in came in between
(`ProvisionedDirectory.admission`).
"""

import asyncio
import re
import uuid
from collections.abc import Callable, Collection
from datetime import timedelta

from clusterra_contracts.identity import now
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import Delete, Put, Write
from scim2_models import InvalidValueException, UniquenessException

from clusterra_gateway.accounts.addresses import people_with
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, scim_address_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.directory.scim.changes import Changes, reindexed, settled
from clusterra_gateway.directory.scim.groups import Groups
from clusterra_gateway.directory.scim.provisioned import Found, ProvisionedDirectory
from clusterra_gateway.directory.scim.requests import require_match
from clusterra_gateway.directory.scim.resources import MAX_LINKED, USERS, AddressMark, StoredUser, User
from clusterra_gateway.people.membership import MemberChange, Membership

KEPT_OUT = timedelta(days=365)
"""How long somebody whom the directory has deleted cannot join again by their address alone."""
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")

type Marks = dict[str, tuple[AddressMark | None, int]]


class Users:
    """The users that the directories of tenants provision. All methods may raise StoreError."""

    def __init__(
        self,
        directory: Directory,
        membership: Membership,
        changes: Changes,
        groups: Groups,
    ) -> None:
        self._directory = directory
        self._provisioned = ProvisionedDirectory(directory.store)
        self._membership = membership
        self._changes = changes
        self._groups = groups

    async def create(self, actor: Member, wanted: User) -> Found[StoredUser]:
        """Adds a user. Members with their addresses are theirs from now on.

        Raises InvalidValueException without an address in the tenant's domains, UniquenessException, Conflict.
        """
        await self._changes.refuse_deleted(actor.tenant)
        user_id = uuid.uuid4().hex

        async def attempt() -> Found[StoredUser]:
            addresses = await self._addresses(actor.tenant, wanted)
            marks = await self._provisioned.marks(actor.tenant, addresses)
            active = wanted.active is not False
            others = reindexed(actor.tenant, "user", user_id, None, wanted)
            others += _marked(actor.tenant, user_id, marks, active=active)
            was_out = any(mark is not None and not mark.active for mark, _ in marks.values())
            if not active or was_out:
                await self._follow(actor, addresses, (), disabled=not active)
            stored = _stored(wanted, active=active, addresses=addresses)
            return await self._changes.create(actor, "user", user_id, stored, others)

        return await settled(attempt)

    async def change(
        self, actor: Member, user_id: str, wanted: Callable[[User], User], match: frozenset[str] | None
    ) -> Found[StoredUser]:
        """Writes what `wanted` makes of a user. Without `active`, they stay as active as they are.

        Raises NotFoundException, PreconditionFailedException, and as `create`; Conflict for the last owner.
        """

        async def attempt() -> Found[StoredUser]:
            found = await self._provisioned.one(USERS, actor.tenant, user_id)
            require_match(match, found.version)
            before = found.record
            user = await asyncio.to_thread(wanted, before.user)
            active = before.active if user.active is None else user.active
            addresses = await self._addresses(actor.tenant, user)
            after = _stored(user, active=active, addresses=addresses)
            others = reindexed(actor.tenant, "user", user_id, before.user, user)
            # The marks are read before the members: a sign-in after this changes them, and this is tried again.
            others += await self._remarked(actor.tenant, user_id, before, after)
            linked = await self._linked(actor.tenant, before, addresses)
            moved = (addresses, linked) != (before.addresses, before.members)
            # Otherwise the members are as they should be.
            if active != before.active or (not active and moved):
                await self._follow(actor, addresses, linked, disabled=not active)
            after = after.model_copy(update={"members": linked, "created_at": before.created_at})
            if after.model_copy(update={"changed_at": before.changed_at}) == before:
                return found
            return await self._changes.replace(actor, "user", found, after, others)

        return await settled(attempt)

    async def delete(self, actor: Member, user_id: str, match: frozenset[str] | None) -> None:
        """Disables the members who are this user, and removes the user from all groups.

        Raises NotFoundException, PreconditionFailedException; Conflict for the last owner.
        """

        async def attempt() -> None:
            found = await self._provisioned.one(USERS, actor.tenant, user_id)
            require_match(match, found.version)
            marks = await self._provisioned.marks(actor.tenant, found.record.addresses)
            others = reindexed(actor.tenant, "user", user_id, found.record.user, None)
            others += _marked(actor.tenant, None, marks, active=False)
            await self._follow(actor, found.record.addresses, found.record.members, disabled=True)
            for group_id in await self._provisioned.groups_with(actor.tenant, user_id):
                await self._groups.leave(actor, group_id, user_id)
            await self._changes.delete(actor, "user", found, others)

        await settled(attempt)

    async def _addresses(self, tenant: str, user: User) -> tuple[str, ...]:
        """The user's addresses in the tenant's domains. An address elsewhere counts for nothing."""
        given = [user.user_name, *(each.value for each in user.emails or ())]
        found: list[str] = []
        for address in dict.fromkeys(each.lower() for each in given if each and _ADDRESS.fullmatch(each)):
            domain = await self._directory.domain(address.rpartition("@")[2])
            if domain is not None and domain.tenant == tenant:
                found.append(address)
        if not found:
            raise InvalidValueException(
                detail="userName or one of the emails must be an address in a domain of the workspace"
            )
        return tuple(found)

    async def _linked(self, tenant: str, before: StoredUser, addresses: Collection[str]) -> tuple[str, ...]:
        """The ids of the members who are the user by an address that the user has no more."""
        former = set(before.addresses) - set(addresses)
        if not former:
            return before.members
        found = [each.id for each in await people_with(self._directory, tenant, former)]
        return tuple(dict.fromkeys((*before.members, *found)))[-MAX_LINKED:]

    async def _follow(
        self, actor: Member, addresses: Collection[str], linked: Collection[str], *, disabled: bool
    ) -> None:
        """Disables or enables the members with these addresses or ids. It counts everywhere within a second."""
        for each in await people_with(self._directory, actor.tenant, addresses, linked):
            if each.disabled != disabled:
                await self._membership.change(actor, each.id, MemberChange(disabled=disabled, by_directory=True))

    async def _remarked(self, tenant: str, user_id: str, before: StoredUser, after: StoredUser) -> list[Write]:
        """The writes of the marks of addresses that are new, gone, or of another state."""
        known, wanted = set(before.addresses), set(after.addresses)
        gone = await self._provisioned.marks(tenant, sorted(known - wanted))
        marks = await self._provisioned.marks(tenant, wanted if after.active != before.active else wanted - known)
        deleted = [
            Delete(ACCOUNTS, scim_address_key(tenant, address), VersionIs(version))
            for address, (mark, version) in gone.items()
            if mark is not None
        ]
        return [*deleted, *_marked(tenant, user_id, marks, active=after.active)]


def _stored(user: User, *, active: bool, addresses: tuple[str, ...]) -> StoredUser:
    kept = user.model_copy(update={"schemas": [], "id": None, "meta": None, "active": active})
    moment = now()
    return StoredUser(
        resource=kept.model_dump(), active=active, addresses=addresses, created_at=moment, changed_at=moment
    )


def _marked(tenant: str, user_id: str | None, marks: Marks, *, active: bool) -> list[Write]:
    """The writes that give addresses to a user, or to nobody. Raises UniquenessException for one of another user."""
    writes: list[Write] = []
    for address, (mark, version) in sorted(marks.items()):
        if user_id is not None and mark is not None and mark.user_id not in (None, user_id):
            raise UniquenessException(detail=f"another user has the address {address}")
        record = AddressMark(user_id=user_id, active=active)
        condition = VersionIs(version) if version else Absent()
        expires = None if user_id is not None else expiry(now() + KEPT_OUT)
        writes.append(Put(ACCOUNTS, scim_address_key(tenant, address), record.attributes(), condition, expires))
    return writes
