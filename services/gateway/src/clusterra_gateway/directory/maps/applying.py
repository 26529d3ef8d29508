"""Applies an identity source of a provision file."""

from clusterra_runtime.store.store import Store

from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.sources import FileSource, IdentitySource
from clusterra_gateway.http.requests.errors import Conflict


async def apply_source(store: Store, ref: MapRef, source: IdentitySource) -> list[str]:
    """Writes a source, and the map of a file. Returns each change in words.

    Users that the map refuses are named, and the others are taken. Raises Conflict where a source changes its kind: the
    users of the other kind would keep their uids; StoreError.
    """
    records = MapRecords(store)
    before = await records.source(ref)
    if before is not None and before.kind != source.kind:
        raise Conflict(
            f"the identity source {ref.source} of tenant {ref.tenant} is of the kind {before.kind}",
            hint=f"give the one of the kind {source.kind} another name",
        )
    changes = []
    if await records.put_source(ref, source):
        changes.append(f"identity source {ref.source} of tenant {ref.tenant}")
    if isinstance(source, FileSource):
        users = await records.active_users(ref)
        state = await records.replace_all(ref, source.read(), note_time=False)
        if await records.active_users(ref) != users:
            changes.append(f"identity source {ref.source} of tenant {ref.tenant}: {state.users} users")
        changes += [f"identity source {ref.source} of tenant {ref.tenant} refuses {why}" for why in state.reasons]
    return changes
