"""Provisions groups of users."""

import asyncio
import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from clusterra_contracts.identity import now
from scim2_models import InvalidValueException, NotFoundException, PatchOp
from scim2_models.messages.patch_op import PatchOperation

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.scim.changes import Changes, reindexed, settled
from clusterra_gateway.directory.scim.provisioned import Found, ProvisionedDirectory
from clusterra_gateway.directory.scim.requests import POLICY, applied, require_match
from clusterra_gateway.directory.scim.resources import GROUPS, MAX_MEMBERS, USERS, Group, GroupMember, StoredGroup

MAX_SEARCHES = 4
"""The most operations of a PATCH that search the members by a filter other than one of their ids."""
_SCHEMA = f"{Group.__schema__}:".lower()
_TERM = r'value\s+eq\s+"([0-9a-f]{32})"'
_BY_IDS = re.compile(rf"members\[\s*{_TERM}(\s+or\s+{_TERM})*\s*\]", re.IGNORECASE)
_IDS = re.compile(_TERM, re.IGNORECASE)


def patched_group(patch: PatchOp[Group], group: Group) -> Group:
    """A copy of the group with the PATCH applied. Raises SCIMException, pydantic's ValidationError.

    Members are added and removed as a set, in one pass over those there are. The library compares each member that an
    operation names with each member of the group: to remove a thousand of two thousand took it 24 seconds. It also
    compares each member with each term of a filter: fifty long filters took it 49.
    """
    operations = patch.operations or []
    if sum(_searches(each) for each in operations) > MAX_SEARCHES:
        raise InvalidValueException(
            detail=f"a PATCH has at most {MAX_SEARCHES} filters of members: name them by `value eq` and their ids"
        )
    changed, others = group.model_copy(), list[PatchOperation[Group]]()
    for operation in operations:
        members = _members_changed(operation)
        if members is None:
            others.append(operation)
        else:
            changed = members(_applied(patch, others, changed))
            others.clear()
    return Group.model_validate(_applied(patch, others, changed).model_dump(), scim_policy=POLICY)


def _applied(patch: PatchOp[Group], operations: list[PatchOperation[Group]], group: Group) -> Group:
    """The group after these operations. The library applies them in one call, because each call copies all members."""
    return applied(patch.model_copy(update={"operations": list(operations)}), group) if operations else group


def _members_changed(operation: PatchOperation[Group]) -> Callable[[Group], Group] | None:
    """What an operation does that adds or removes members by their ids; None for any other operation."""
    path, value = _path(operation), operation.value
    if not path and isinstance(value, dict) and [name.lower() for name in value] == ["members"]:
        path, value = "members", next(iter(value.values()))
    named = _named(value) if path.lower() == "members" else None
    if operation.op == PatchOperation.Op.add and named is not None:
        return partial(_with, more=[GroupMember.model_validate(each, scim_policy=POLICY) for each in named])
    if operation.op != PatchOperation.Op.remove:
        return None
    if named is not None:
        return partial(_without, ids={str(each["value"]) for each in named})
    if _BY_IDS.fullmatch(path) and value is None:
        return partial(_without, ids={each.lower() for each in _IDS.findall(path)})
    return None


def _path(operation: PatchOperation[Group]) -> str:
    """The path of an operation, without the schema that a client may put before it."""
    path = str(operation.path or "")
    return path[len(_SCHEMA) :] if path.lower().startswith(_SCHEMA) else path


def _searches(operation: PatchOperation[Group]) -> bool:
    path = _path(operation)
    return "[" in path and not _BY_IDS.fullmatch(path)


def _named(value: Any) -> list[dict[str, Any]] | None:
    """The members that a value names by their ids; None for a value of another form."""
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) and isinstance(each.get("value"), str) for each in entries):
        return None
    return entries


def _without(group: Group, ids: set[str]) -> Group:
    return group.model_copy(update={"members": [each for each in group.members or () if each.value not in ids]})


def _with(group: Group, more: list[GroupMember]) -> Group:
    known = {each.value: each for each in group.members or ()}
    return group.model_copy(update={"members": [*known.values(), *(each for each in more if each.value not in known)]})


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
