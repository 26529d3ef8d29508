"""Finds the people of a tenant by their addresses, and reads no other member.

The reservation of a user name also has its owner's address. Earlier releases did not write it: the member of such a
reservation is read, and the address is added.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import batched

from clusterra_runtime.store.condition import Present, VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import ConditionFailed, Update

from clusterra_gateway.accounts.directory import READS_AT_ONCE, Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, USER_NAMES, tenant_key, user_name_key
from clusterra_gateway.accounts.records import OPERATOR, Member, UserNameReservation

PAGE = 1000
MOST_COMPLETED = 500
"""How many reservations of earlier releases get their address in one search. The rest get it in later ones."""


def reservation_of(member: Member) -> UserNameReservation:
    """The reservation of a member's user name."""
    return UserNameReservation(uid=member.uid, owner=member.id, email=member.email.lower())


async def readdressed(directory: Directory, member: Member) -> list[Update]:
    """The updates that give the reservation of a member's name their address. Raises StoreError.

    Empty where it has the address, and where the tenant is gone, and with it the name. A gateway of an earlier release
    changes the address of the member alone, so this is called at each sign-in.
    """
    key = user_name_key(member.tenant, member.user)
    item = await directory.store.get(ACCOUNTS, key)
    if item is None or UserNameReservation.of(item).email == member.email.lower():
        return []
    return [Update(ACCOUNTS, key, set={"email": member.email.lower()}, condition=Present())]


async def people_with(
    directory: Directory, tenant: str, addresses: Collection[str], ids: Collection[str] = ()
) -> tuple[Member, ...]:
    """The people of a tenant with one of these addresses (in lower case), or with one of these ids.

    Raises StoreError.
    """
    owners, before = list[str](), list[tuple[Item, str]]()
    partition = tenant_key(tenant).pk
    async for item in all_items(
        lambda after: directory.store.query(ACCOUNTS, partition, sort=USER_NAMES, cursor=after, limit=PAGE)
    ):
        reservation = UserNameReservation.of(item)
        if reservation.owner == OPERATOR:
            continue
        if reservation.email is None:
            before.append((item, reservation.owner))
        elif reservation.email in addresses:
            owners.append(reservation.owner)
    known = {each.id: each for each in await directory.members(owner for _, owner in before)}
    await _complete(directory, [(item, known[owner]) for item, owner in before if owner in known][:MOST_COMPLETED])
    others = (each for each in dict.fromkeys((*owners, *ids)) if each not in known)
    known |= {each.id: each for each in await directory.members(others)}
    return tuple(each for each in known.values() if _is_wanted(each, tenant, addresses, ids))


def _is_wanted(member: Member, tenant: str, addresses: Collection[str], ids: Collection[str]) -> bool:
    person = member.tenant == tenant and member.kind == "person"
    return person and (member.email.lower() in addresses or member.id in ids)


async def _complete(directory: Directory, found: Collection[tuple[Item, Member]]) -> None:
    """Write the addresses into reservations of earlier releases, unless one has changed since it was read."""

    async def write(item: Item, email: Mapping[str, str]) -> None:
        with suppress(ConditionFailed):
            await directory.store.write(Update(ACCOUNTS, item.key, set=email, condition=VersionIs(item.version)))

    for some in batched(found, READS_AT_ONCE):
        await asyncio.gather(*(write(item, {"email": member.email.lower()}) for item, member in some))
