"""Reads the directories of tenants again and again: LDAP, and what was provisioned. Of all replicas, one reads each."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import structlog
from clusterra_contracts.identity import GroupName, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound
from clusterra_runtime.secrets import reader
from clusterra_runtime.secrets.reference import SecretUnavailable
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper
from pydantic import TypeAdapter, ValidationError

from clusterra_gateway.directory.maps.entries import MapRef, ReadMap, Refused
from clusterra_gateway.directory.maps.ldap_directory import DirectoryUnavailable, Secrets, read_directory
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.posix_files import Account, Group, entries_of
from clusterra_gateway.directory.maps.sources import LdapSource, ScimSource
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.directory.scim.resources import (
    PosixGroup,
    PosixUser,
    StoredGroup,
    StoredUser,
    Unreadable,
    read_record,
)

log = structlog.get_logger()

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


LOOK_SECONDS = 5.0
"""How often a replica looks whether a directory is due."""
RETRY = timedelta(seconds=30)
"""How long after a failure a directory is read again."""
READ_SECONDS = 600.0
"""How long reading a directory may take. LDAP itself has five minutes."""
BOUNDS = Bounds(at_once=4)
PROVISIONED_SECONDS = 10.0
"""The minimum time between two reads of the provisioned users: a directory's first synchronisation changes them
constantly."""
ABANDONED = timedelta(minutes=1)
"""After this time a replica that reads what was provisioned counts as gone."""


class DirectoryRefresh:
    """Keeps the maps of the LDAP and SCIM sources that a cluster uses.

    What was provisioned is read when it has changed. An LDAP directory is read every `refresh_seconds`: a replica
    claims a source by writing `tried_at` to its state, so that the others leave it for `refresh_seconds`.
    While a directory cannot be read, its map stays what was read last, and the state says why and since when.
    """

    def __init__(
        self, records: MapRecords, registry: Registry, secrets: reader.Secrets, outbound: Outbound = DEFAULT_OUTBOUND
    ) -> None:
        self._records = records
        self._provisioned = ProvisionedDirectory(records.store)
        self._registry = registry
        self._secrets = secrets
        self._outbound = outbound

    def sweeper(self) -> Sweeper[MapRef]:
        """Reads what is due, some directories at a time."""
        sweep = Sweep("identity maps", self._used, self.refresh, _place, (StoreError,))
        return Sweeper(sweep, Pace(LOOK_SECONDS, READ_SECONDS, at_start=True), BOUNDS)

    async def _used(self) -> set[MapRef]:
        return {
            MapRef(ref.tenant, binding.identity_source)
            for ref, binding in self._registry.clusters.items()
            if binding.identity_source is not None
        }

    async def refresh(self, ref: MapRef) -> None:
        """Read a directory, if it is due. Raises StoreError, ValidationError for a record that cannot be read."""
        match await self._records.source(ref):
            case LdapSource() as source:
                await self._refresh_ldap(ref, source)
            case ScimSource():
                await self._refresh_provisioned(ref)

    async def _refresh_provisioned(self, ref: MapRef) -> None:
        revision = await self._provisioned.revision(ref.tenant)
        state, version = await self._records.state(ref)
        if state.read_at is not None and state.revision == revision:
            return
        if state.read_at is not None and now() < state.read_at + timedelta(seconds=PROVISIONED_SECONDS):
            return
        if state.reading_since is not None and now() < state.reading_since + ABANDONED:
            return
        claimed = state.model_copy(update={"tried_at": now(), "reading_since": now()})
        if not await self._records.put_state(ref, claimed, version):
            return
        users, groups = await self._provisioned.everything(ref.tenant)
        read = await asyncio.to_thread(read_provisioned, users, groups)
        await self._records.replace_all(ref, read, revision=revision)

    async def _refresh_ldap(self, ref: MapRef, source: LdapSource) -> None:
        state, version = await self._records.state(ref)
        wait = RETRY if state.problem else timedelta(seconds=source.refresh_seconds)
        if state.tried_at is not None and now() < state.tried_at + wait:
            return
        claimed = state.model_copy(update={"tried_at": now()})
        if not await self._records.put_state(ref, claimed, version):
            return
        try:
            secrets = await self._secrets_of(source)
            read = await asyncio.to_thread(read_directory, source, secrets, self._outbound)
        except (DirectoryUnavailable, SecretUnavailable) as error:
            log.warning("identity_map_not_read", tenant=ref.tenant, source=ref.source, reason=str(error))
            await self._records.put_state(ref, claimed.model_copy(update={"problem": str(error)[:500]}), version + 1)
            return
        await self._records.replace_all(ref, read)

    async def _secrets_of(self, source: LdapSource) -> Secrets:
        password = source.bind_password
        certificates = source.ca_certificates
        return Secrets(
            password=None if password is None else (await self._secrets.read(password)).decode(),
            ca_certificates=None if certificates is None else (await self._secrets.read(certificates)).decode(),
        )


def _place(ref: MapRef) -> Place:
    return Place(ref.tenant, record=ref.source)
