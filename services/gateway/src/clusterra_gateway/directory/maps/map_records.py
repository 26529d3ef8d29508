"""Keeps the identity maps in the accounts table: a name keeps its uid, and a uid its name, for good."""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from itertools import batched
from typing import override

import structlog
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, TransactionCancelled, Update, Write

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    IDENTITY_SOURCES,
    MAPPED_USERS,
    identity_source_key,
    identity_source_name,
    identity_state_key,
    mapped_email_key,
    mapped_uid_key,
    mapped_user_key,
    mapped_user_name,
    tenant_key,
)
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.maps.entries import MAX_ENTRIES, MAX_NAMES, MapEntry, MapRef, ReadMap, Refused
from clusterra_gateway.directory.maps.sources import FileSource, IdentitySource, SourceState, StoredSource
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.identity.access.unix_users import UnixUser, UnixUsers

log = structlog.get_logger()

MAX_REASONS = 20
WRITES_AT_ONCE = 10


class MapRecords:
    """The sources and the maps of all tenants. All methods may raise StoreError."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def source(self, ref: MapRef) -> IdentitySource | None:
        """A source; None when there is none. Raises pydantic's ValidationError for one it cannot read."""
        item = await self.store.get(ACCOUNTS, identity_source_key(ref.tenant, ref.source))
        return None if item is None else StoredSource.of(item).source

    async def sources(self, tenant: str) -> dict[str, IdentitySource]:
        """Name -> source, of a tenant. Those that this version cannot read are logged."""
        page = await self.store.query(ACCOUNTS, tenant_key(tenant).pk, sort=IDENTITY_SOURCES)
        found = {identity_source_name(item.key): StoredSource.readable(item) for item in page.items}
        return {name: stored.source for name, stored in found.items() if stored is not None}

    async def put_source(self, ref: MapRef, source: IdentitySource) -> bool:
        """Writes a source. Returns whether it differs from the one before. Raises ConditionFailed."""
        record = StoredSource.without_users(source)
        key = identity_source_key(ref.tenant, ref.source)
        current = await self.store.get(ACCOUNTS, key)
        if current is not None and StoredSource.of(current) == record:
            return False
        condition = Absent() if current is None else VersionIs(current.version)
        await self.store.write(Put(ACCOUNTS, key, record.attributes(), condition))
        return True

    async def state(self, ref: MapRef) -> tuple[SourceState, int]:
        """How a map stands, and the version of that record: 0 before there is one."""
        item = await self.store.get(ACCOUNTS, identity_state_key(ref.tenant, ref.source))
        return (SourceState(), 0) if item is None else (SourceState.of(item), item.version)

    async def put_state(self, ref: MapRef, state: SourceState, version: int) -> bool:
        """Writes the state in place of that version. Returns False where another writer was faster."""
        key = identity_state_key(ref.tenant, ref.source)
        condition = VersionIs(version) if version else Absent()
        try:
            await self.store.write(Put(ACCOUNTS, key, state.attributes(), condition))
        except ConditionFailed:
            return False
        return True

    async def by_email(self, ref: MapRef, email: str) -> MapEntry | None:
        """The user who is the person with this address; None when there is none."""
        item = await self.store.get(ACCOUNTS, mapped_email_key(ref.tenant, ref.source, email))
        return None if item is None else await self.by_name(ref, str(item.attributes["name"]))

    async def by_name(self, ref: MapRef, name: str) -> MapEntry | None:
        """The user with this name; None when there is none."""
        item = await self.store.get(ACCOUNTS, mapped_user_key(ref.tenant, ref.source, name))
        return None if item is None else MapEntry.of(item)

    async def users(self, ref: MapRef) -> dict[str, tuple[MapEntry, int]]:
        """Name -> user and version of the record, also of users who are not active."""
        pk = identity_state_key(ref.tenant, ref.source).pk
        page = await self.store.query(ACCOUNTS, pk, sort=MAPPED_USERS)
        found = {mapped_user_name(item.key): (MapEntry.readable(item), item.version) for item in page.items}
        return {name: (entry, version) for name, (entry, version) in found.items() if entry is not None}

    async def replace_all(
        self, ref: MapRef, read: ReadMap, *, note_time: bool = True, revision: int = 0
    ) -> SourceState:
        """Replaces the map by the entries of a source, with its state. Users that the source lacks become inactive.

        Without `note_time`, a state that differs by its time alone stays: applying a file again changes nothing.
        `revision` is that of what was provisioned.
        """
        known = await self.users(ref)
        wanted, refused = _unambiguous(read.entries)
        refused = [*read.refused, *refused]
        new = [name for name in wanted if name not in known]
        for name in new[max(MAX_NAMES - len(known), 0) :]:
            del wanted[name]
            refused.append(Refused(name, f"a map keeps at most {MAX_NAMES} names, with those of users who are gone"))
        gone = [
            entry.model_copy(update={"active": False})
            for name, (entry, _) in known.items()
            if entry.active and name not in wanted
        ]
        # The addresses of those who are gone are free before others get them.
        for change in (gone, list(wanted.values())):
            changed = [each for each in change if known.get(each.name, (None, 0))[0] != each]
            for some in batched(changed, WRITES_AT_ONCE):
                outcomes = await asyncio.gather(*(self.put(ref, each, known.get(each.name)) for each in some))
                refused += [each for each in outcomes if each is not None]
        not_taken = {each.name for each in refused}
        state = SourceState(
            users=sum(each.active and each.name not in not_taken for each in wanted.values()),
            read_at=now(),
            tried_at=now(),
            revision=revision,
            refused=len(refused),
            reasons=tuple(f"{each.name}: {each.reason}"[:500] for each in refused[:MAX_REASONS]),
        )
        before, version = await self.state(ref)
        times = {"read_at": state.read_at, "tried_at": state.tried_at}
        if note_time or before.model_copy(update=times) != state:
            await self.put_state(ref, state, version)
        log.info("identity_map_read", tenant=ref.tenant, source=ref.source, users=state.users, refused=state.refused)
        return state

    async def put(self, ref: MapRef, entry: MapEntry, known: tuple[MapEntry, int] | None) -> Refused | None:
        """Writes one user in place of the `known` one. Returns why it is refused; None once it is written."""
        user_key = mapped_user_key(ref.tenant, ref.source, entry.name)
        before = known[0] if known is not None else None
        if before is not None and before.uid != entry.uid:
            return Refused(entry.name, f"has uid {before.uid} for good, not {entry.uid}: give the user another name")
        writes: list[Write] = []
        if known is None:
            writes.append(Put(ACCOUNTS, user_key, entry.attributes(), Absent()))
            uid_key = mapped_uid_key(ref.tenant, ref.source, entry.uid)
            writes.append(Put(ACCOUNTS, uid_key, {"name": entry.name}, Absent()))
        else:
            writes.append(Update(ACCOUNTS, user_key, set=entry.attributes(), condition=VersionIs(known[1])))
        held = set(before.emails) if before is not None and before.active else set[str]()
        wanted = set(entry.emails) if entry.active else set[str]()
        new = sorted(wanted - held)
        writes += [
            Put(ACCOUNTS, mapped_email_key(ref.tenant, ref.source, email), {"name": entry.name}, Absent())
            for email in new
        ]
        writes += [Delete(ACCOUNTS, mapped_email_key(ref.tenant, ref.source, email)) for email in sorted(held - wanted)]
        try:
            await self.store.transact(writes, token=f"identity-map-{secrets.token_hex(16)}")
        except TransactionCancelled as cancelled:
            return Refused(entry.name, _why(writes, cancelled))
        return None


async def apply_source(store: Store, ref: MapRef, source: IdentitySource) -> None:
    """Writes a source, and the map of a file. Its state names the users that the map refuses; the others are taken.

    Raises Conflict where a source changes its kind: the users of the other kind would keep their uids; StoreError.
    """
    records = MapRecords(store)
    before = await records.source(ref)
    if before is not None and before.kind != source.kind:
        raise Conflict(
            f"the identity source {ref.source} of tenant {ref.tenant} is of the kind {before.kind}",
            hint=f"give the one of the kind {source.kind} another name",
        )
    await records.put_source(ref, source)
    if isinstance(source, FileSource):
        await records.replace_all(ref, source.read(), note_time=False)


def _unambiguous(entries: Iterable[MapEntry]) -> tuple[dict[str, MapEntry], list[Refused]]:
    """Name -> entry, without those whose name, uid or address an earlier entry has."""
    kept: dict[str, MapEntry] = {}
    refused: list[Refused] = []
    uids: dict[int, str] = {}
    emails: dict[str, str] = {}
    for entry in entries:
        other = entry.name if entry.name in kept else uids.get(entry.uid)
        other = other or next((emails[email] for email in entry.emails if email in emails), None)
        if other is not None:
            refused.append(Refused(entry.name, f"the name, the uid or an address is that of user {other} as well"))
        elif len(kept) >= MAX_ENTRIES:
            refused.append(Refused(entry.name, f"a map has at most {MAX_ENTRIES} users"))
        else:
            kept[entry.name] = entry
            uids[entry.uid] = entry.name
            emails |= dict.fromkeys(entry.emails, entry.name)
    return kept, refused


def _why(writes: list[Write], cancelled: TransactionCancelled) -> str:
    for write, reason in zip(writes, cancelled.reasons, strict=True):
        if reason is not None:
            return _taken(write.key, reason.current)
    return "another writer was faster"


def _taken(key: Key, current: Item | None) -> str:
    owner = "another user" if current is None else f"user {current.attributes.get('name', '')}"
    kind, _, value = key.sk.partition("#")
    if kind == "uid":
        return f"uid {value} belongs to {owner} for good"
    if kind == "email":
        return f"the address {value} belongs to {owner}"
    return "another writer was faster"


CACHE_SECONDS = 15.0
"""How long an answer is used again. A user who became inactive can submit for that long."""
MAX_CACHED = 10_000


class MappedUsers(UnixUsers):
    """Which Unix user a member is on a cluster: the one Clusterra gave them, or the one of the site's map.

    An answer is kept for 15 s.
    """

    def __init__(self, records: MapRecords) -> None:
        self._records = records
        self._kept = BoundedCache[tuple[MapRef, str], UnixUser](MAX_CACHED)

    @override
    async def of(self, member: Member, binding: ClusterBinding) -> UnixUser:
        if binding.identity_source is None:
            return UnixUser(member.slurm_user)
        ref = MapRef(member.tenant, binding.identity_source)
        key = ref, member.id if member.kind == "service_account" else member.email.lower()
        kept = self._kept.get(key)
        if kept is None:
            kept = await self._read(ref, member)
            self._kept.put(key, kept, seconds=CACHE_SECONDS)
        return kept

    @override
    async def by_source(
        self, member: Member, clusters: Mapping[ClusterRef, ClusterBinding]
    ) -> dict[str | None, SlurmUser]:
        bindings = {each.identity_source: each for ref, each in clusters.items() if ref.tenant == member.tenant}
        found = {source: (await self.of(member, binding)).user for source, binding in bindings.items()}
        return {source: user for source, user in found.items() if user is not None}

    async def _read(self, ref: MapRef, member: Member) -> UnixUser:
        if member.kind == "service_account":
            entry = await self._records.by_name(ref, member.user)
            who = f"the service account {member.user}"
            entry = entry if entry is not None and entry.service_account else None
        else:
            entry = await self._records.by_email(ref, member.email)
            who = f"the address {member.email}"
        if entry is None:
            return UnixUser(None, f"the identity source {ref.source} has no user for {who}")
        if not entry.active:
            return UnixUser(None, f"the user {entry.name} of the identity source {ref.source} is not active")
        return UnixUser(entry.slurm_user)
