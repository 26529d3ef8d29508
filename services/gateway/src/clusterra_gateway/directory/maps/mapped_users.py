"""Decides which Unix user a member is on a cluster: the one Clusterra gave them, or the one of the site's map."""

from collections.abc import Mapping
from typing import override

from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.bounded_cache import BoundedCache

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.identity.access.unix_users import UnixUser, UnixUsers

CACHE_SECONDS = 15.0
"""How long an answer is used again. A user who became inactive can submit for that long."""
MAX_CACHED = 10_000


class MappedUsers(UnixUsers):
    """The users of members, read from the record and kept for 15 s."""

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
