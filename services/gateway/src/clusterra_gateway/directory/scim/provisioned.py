"""Reads what a tenant's directory has provisioned."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched

import structlog
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Value
from clusterra_runtime.store.page import Prefix, all_items
from clusterra_runtime.store.store import Delete, Store, Update, Write
from scim2_models import NotFoundException

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    SCIM_GROUPS,
    SCIM_USERS,
    ScimIndex,
    ScimKind,
    scim_address_key,
    scim_index_key,
    scim_names,
    scim_resource_key,
    scim_state_key,
)
from clusterra_gateway.directory.scim.resources import (
    AddressMark,
    Group,
    IndexMark,
    Kind,
    StoredGroup,
    StoredUser,
    Unreadable,
    User,
    read_record,
)

log = structlog.get_logger()

READS_AT_ONCE = 20
NAMES_PAGE = 500
GROUPS_PAGE = 10
"""How many items are read at a time. A group may have 2,000 members, and nobody holds all groups."""


@dataclass(frozen=True, slots=True)
class Found[R: (StoredUser, StoredGroup)]:
    """A record with its id, and the version of the item."""

    id: str
    record: R
    version: int


class ProvisionedDirectory:
    """What the directories of tenants have provisioned. All methods may raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def one[R: (User, Group), S: (StoredUser, StoredGroup)](
        self, kind: Kind[R, S], tenant: str, resource_id: str
    ) -> Found[S]:
        """A user or a group. Raises NotFoundException, Unreadable."""
        item = await self._store.get(ACCOUNTS, scim_resource_key(tenant, kind.name, resource_id))
        if item is None:
            raise NotFoundException(detail=f"there is no such {kind.name}")
        return Found(resource_id, read_record(kind.record, item), item.version)

    async def some[R: (User, Group), S: (StoredUser, StoredGroup)](
        self, kind: Kind[R, S], tenant: str, ids: Iterable[str]
    ) -> list[Found[S]]:
        """The users or groups with these ids that exist, in this order. Those that cannot be read are logged."""

        async def read(resource_id: str) -> Found[S] | None:
            try:
                return await self.one(kind, tenant, resource_id)
            except NotFoundException:
                return None
            except Unreadable as error:
                log.error("provisioned_unreadable", tenant=tenant, key=str(error))  # noqa: TRY400 - not the record
                return None

        found: list[Found[S]] = []
        for some in batched(ids, READS_AT_ONCE):
            found += [each for each in await asyncio.gather(*map(read, some)) if each is not None]
        return found

    async def by_index(self, tenant: str, kind: ScimKind, index: ScimIndex, value: str) -> str | None:
        """The id of the user or group with this name or externalId; None when there is none."""
        item = await self._store.get(ACCOUNTS, scim_index_key(tenant, kind, index, value))
        return None if item is None else IndexMark.of(item).resource_id

    async def ids(self, tenant: str, kind: ScimKind) -> list[str]:
        """The ids of all users, or of all groups, always in the same order."""
        marks = self._paged(tenant, scim_names(kind), NAMES_PAGE)
        found = [(item.key, item.attributes.get("resource_id")) async for item in marks]
        for key in (key for key, each in found if not isinstance(each, str)):
            log.error("provisioned_unreadable", key=str(key))
        return [each for _, each in found if isinstance(each, str)]

    async def groups_with(self, tenant: str, user_id: str) -> list[str]:
        """The ids of the groups that a user is in."""
        groups = self._paged(tenant, SCIM_GROUPS, GROUPS_PAGE)
        return [item.key.sk.removeprefix(SCIM_GROUPS.text) async for item in groups if user_id in _members(item)]

    async def everything(self, tenant: str) -> tuple[Mapping[str, Item], Mapping[str, Item]]:
        """The items of all users and of all groups, by id."""
        return await self._items(tenant, SCIM_USERS), await self._items(tenant, SCIM_GROUPS)

    async def revision(self, tenant: str) -> int:
        """How often something was provisioned or changed in a tenant."""
        item = await self._store.get(ACCOUNTS, scim_state_key(tenant))
        return 0 if item is None else item.version

    async def deactivated(self, tenant: str, address: str) -> bool:
        """Whether the directory says that the person with this address may not sign in."""
        mark, _ = await self._mark(tenant, address)
        return mark is not None and not mark.active

    async def admission(self, tenant: str, address: str) -> Write | None:
        """The write that a transaction needs which makes the person with this address a member.

        It fails if the directory changes the person at the same moment, and makes such a change read the members again.
        None where the directory has deactivated them.
        """
        mark, version = await self._mark(tenant, address)
        key = scim_address_key(tenant, address)
        if mark is None:
            # A deletion of what must not be there. A check would need a right that installations do not have yet.
            return Delete(ACCOUNTS, key, Absent())
        return Update(ACCOUNTS, key, condition=VersionIs(version)) if mark.active else None

    async def marks(self, tenant: str, addresses: Iterable[str]) -> dict[str, tuple[AddressMark | None, int]]:
        """The marks of addresses, by address, each with the version of its item; None for an address without a mark."""
        return {address: await self._mark(tenant, address) for address in addresses}

    async def _mark(self, tenant: str, address: str) -> tuple[AddressMark | None, int]:
        item = await self._store.get(ACCOUNTS, scim_address_key(tenant, address))
        return (None, 0) if item is None else (AddressMark.of(item), item.version)

    def _paged(self, tenant: str, kind: Prefix, page: int) -> AsyncGenerator[Item]:
        """All items of a kind, a few at a time."""
        pk = scim_state_key(tenant).pk
        return all_items(lambda after: self._store.query(ACCOUNTS, pk, sort=kind, limit=page, cursor=after))

    async def _items(self, tenant: str, kind: Prefix) -> dict[str, Item]:
        page = await self._store.query(ACCOUNTS, scim_state_key(tenant).pk, sort=kind)
        return {item.key.sk.removeprefix(kind.text): item for item in page.items}


def _members(item: Item) -> Sequence[Value]:
    """The ids of a group's members, as they are stored: to check a million of them took a second."""
    members = item.attributes.get("members")
    return members if isinstance(members, Sequence) and not isinstance(members, str) else ()
