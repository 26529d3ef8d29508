"""Provisions groups of users."""

import asyncio
import uuid
from collections.abc import Callable

from clusterra_contracts.identity import now
from scim2_models import InvalidValueException, NotFoundException

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.scim.changes import Changes, reindexed, settled
from clusterra_gateway.directory.scim.provisioned import Found, ProvisionedDirectory
from clusterra_gateway.directory.scim.requests import require_match
from clusterra_gateway.directory.scim.resources import GROUPS, MAX_MEMBERS, USERS, Group, StoredGroup


class Groups:
    """The groups that the directories of tenants provision. All methods may raise StoreError."""

    def __init__(self, provisioned: ProvisionedDirectory, changes: Changes) -> None:
        self._provisioned = provisioned
        self._changes = changes

    async def create(self, actor: Member, wanted: Group) -> Found[StoredGroup]:
        """Adds a group. Raises InvalidValueException for unknown members, UniquenessException, Conflict."""
        await self._changes.refuse_deleted(actor.tenant)
        group_id = uuid.uuid4().hex
        stored = await self._stored(actor.tenant, wanted, ())
        others = reindexed(actor.tenant, "group", group_id, None, wanted)
        return await settled(lambda: self._changes.create(actor, "group", group_id, stored, others))

    async def change(
        self, actor: Member, group_id: str, wanted: Callable[[Group], Group], match: frozenset[str] | None
    ) -> Found[StoredGroup]:
        """Writes what `wanted` makes of a group. Raises NotFoundException, PreconditionFailedException, as `create`."""

        async def attempt() -> Found[StoredGroup]:
            found = await self._provisioned.one(GROUPS, actor.tenant, group_id)
            require_match(match, found.version)
            before = found.record
            group = await asyncio.to_thread(_changed, before, wanted)
            after = await self._stored(actor.tenant, group, before.members)
            after = after.model_copy(update={"created_at": before.created_at})
            if after.model_copy(update={"changed_at": before.changed_at}) == before:
                return found
            others = reindexed(actor.tenant, "group", group_id, before.group, group)
            return await self._changes.replace(actor, "group", found, after, others)

        return await settled(attempt)

    async def delete(self, actor: Member, group_id: str, match: frozenset[str] | None) -> None:
        """Removes a group. Raises NotFoundException, PreconditionFailedException."""

        async def attempt() -> None:
            found = await self._provisioned.one(GROUPS, actor.tenant, group_id)
            require_match(match, found.version)
            others = reindexed(actor.tenant, "group", group_id, found.record.group, None)
            await self._changes.delete(actor, "group", found, others)

        await settled(attempt)

    async def leave(self, actor: Member, group_id: str, user_id: str) -> None:
        """Removes a user from a group, which may be gone meanwhile."""

        def without(group: Group) -> Group:
            kept = [each for each in group.members or () if each.value != user_id]
            return group.model_copy(update={"members": kept or None})

        try:
            await self.change(actor, group_id, without, None)
        except NotFoundException:
            return

    async def _stored(self, tenant: str, group: Group, known: tuple[str, ...]) -> StoredGroup:
        members = tuple(dict.fromkeys(each.value for each in group.members or () if each.value is not None))
        if len(members) > MAX_MEMBERS:
            raise InvalidValueException(detail=f"a group has at most {MAX_MEMBERS} members")
        before = set(known)
        new = [each for each in members if each not in before]
        found = {each.id for each in await self._provisioned.some(USERS, tenant, new)}
        if missing := [each for each in new if each not in found]:
            raise InvalidValueException(detail=f"there is no user {missing[0]}: the members of a group are users")
        kept = group.model_copy(update={"schemas": [], "id": None, "meta": None, "members": None})
        moment = now()
        return StoredGroup(resource=kept.model_dump(), members=members, created_at=moment, changed_at=moment)


def _changed(before: StoredGroup, wanted: Callable[[Group], Group]) -> Group:
    return wanted(before.group)
