"""Makes users of clusters from provisioned users and groups, joined as those of files and of LDAP are."""

from collections.abc import Mapping

from clusterra_contracts.identity import GroupName
from clusterra_runtime.store.item import Item
from pydantic import TypeAdapter, ValidationError

from clusterra_gateway.directory.maps.entries import ReadMap, Refused
from clusterra_gateway.directory.maps.posix_files import Account, Group, entries_of
from clusterra_gateway.directory.scim.resources import (
    PosixGroup,
    PosixUser,
    StoredGroup,
    StoredUser,
    Unreadable,
    read_record,
)

_GROUP_NAME: TypeAdapter[str] = TypeAdapter(GroupName)


def read_provisioned(users: Mapping[str, Item], groups: Mapping[str, Item]) -> ReadMap:
    """The users with a uid number and their groups with a gid number. `users` and `groups` are items by id.

    A user or a group that cannot be one of a cluster is refused, and the others are taken. This takes up to some
    seconds: call it on a thread.
    """
    refused: list[Refused] = []
    accounts = {user_id: each for user_id, item in users.items() if (each := _account(user_id, item, refused))}
    names = {user_id: account.name for user_id, account in accounts.items()}
    found = (_group(group_id, item, names, refused) for group_id, item in groups.items())
    read = entries_of(tuple(accounts.values()), [group for group in found if group is not None])
    return ReadMap(read.entries, (*refused, *read.refused))


def _account(user_id: str, item: Item, refused: list[Refused]) -> Account | None:
    try:
        stored = read_record(StoredUser, item)
        user = stored.user
    except Unreadable:
        refused.append(Refused(user_id, "cannot be read by this release"))
        return None
    posix = user[PosixUser]
    if posix is None or posix.uid_number is None or not stored.active:
        return None
    name = posix.uid or (user.user_name or "").partition("@")[0].lower()
    if posix.gid_number is None:
        refused.append(Refused(name, "has a uidNumber and no gidNumber"))
        return None
    return Account(name, posix.uid_number, posix.gid_number, posix.home_directory, stored.addresses)


def _group(group_id: str, item: Item, names: Mapping[str, str], refused: list[Refused]) -> Group | None:
    try:
        stored = read_record(StoredGroup, item)
        group = stored.group
    except Unreadable:
        refused.append(Refused(group_id, "cannot be read by this release"))
        return None
    posix = group[PosixGroup]
    if posix is None or posix.gid_number is None:
        return None
    name = posix.cn or group.display_name or ""
    try:
        _GROUP_NAME.validate_python(name)
    except ValidationError:
        refused.append(Refused(name[:64], "is no name of a group: give it a `cn`"))
        return None
    return Group(name, posix.gid_number, tuple(names[each] for each in stored.members if each in names))
