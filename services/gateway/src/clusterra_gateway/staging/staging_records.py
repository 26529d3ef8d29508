"""Stores the stagings of jobs, each changed by conditional writes only.

| partition | sort key | item |
|---|---|---|
| `cluster#<tenant>.<cluster>` | `staging#<id>` | the staging |
| | `job#<job id>` | the id of a job's staging |
| `unfinished` | `<tenant>.<cluster>#<id>` | the mark of a staging that a gateway has to go on with |

All items expire 90 days after the submit.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import (
    ConditionFailed,
    Delete,
    Put,
    Store,
    TransactionCancelled,
    Update,
    Write,
)
from pydantic import ValidationError

from clusterra_gateway.accounts.records import expiry, marked_places
from clusterra_gateway.staging.staging import Staging, view
from clusterra_gateway.staging.table import STAGING
from clusterra_gateway.submission.staged_files import JobStaging

KEPT = timedelta(days=90)
UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Stored:
    """A staging at a version of its item."""

    staging: Staging
    version: int


class StagingRecords:
    """The stagings of all clusters. Every method may raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, ref: ClusterRef, staging: Staging) -> Stored | None:
        """Store a new staging, with its mark. Returns None where there is one with its id."""
        ends = expiry(staging.created_at + KEPT)
        put = Put(STAGING, _key(ref, staging.id), _attributes(staging), Absent(), ends)
        mark = Update(STAGING, _mark(ref, staging.id), set={}, expires_at=ends)
        return Stored(staging, put.version) if await self._transacted([put, mark]) else None

    async def read(self, ref: ClusterRef, staging_id: str) -> Stored | None:
        """A staging; None when there is none. Raises pydantic's ValidationError for one of a newer release."""
        item = await self._store.get(STAGING, _key(ref, staging_id))
        return None if item is None else _stored(item)

    async def of_job(self, ref: ClusterRef, job_id: JobId) -> Staging | None:
        """The staging of a job; None when there is none."""
        item = await self._store.get(STAGING, Key(_cluster(ref), f"job#{job_id}"))
        if item is None:
            return None
        stored = await self.read(ref, str(item.attributes["staging_id"]))
        return None if stored is None else stored.staging

    async def replace(self, ref: ClusterRef, stored: Stored, changed: Staging) -> Stored | None:
        """Writes a changed staging. Returns None after a conflicting write. A staging that is over loses its mark."""
        update = Update(STAGING, _key(ref, changed.id), set=_attributes(changed), condition=VersionIs(stored.version))
        writes: list[Write] = [update]
        if changed.job_id is not None and stored.staging.job_id is None:
            named = Key(_cluster(ref), f"job#{changed.job_id}")
            ends = expiry(changed.created_at + KEPT)
            writes.append(Update(STAGING, named, set={"staging_id": changed.id}, expires_at=ends))
        if changed.over:
            writes.append(Delete(STAGING, _mark(ref, changed.id)))
        if len(writes) > 1:
            return Stored(changed, stored.version + 1) if await self._transacted(writes) else None
        try:
            await self._store.write(update)
        except ConditionFailed:
            return None
        return Stored(changed, stored.version + 1)

    async def remove(self, ref: ClusterRef, stored: Stored) -> None:
        """Remove a staging whose job was not submitted, unless somebody has changed it."""
        place = stored.staging.id
        await self._transacted(
            [Delete(STAGING, _key(ref, place), VersionIs(stored.version)), Delete(STAGING, _mark(ref, place))]
        )

    async def unmark(self, ref: ClusterRef, staging_id: str) -> None:
        """Remove the mark of a staging that is not there any more."""
        await self._store.delete(Delete(STAGING, _mark(ref, staging_id)))

    async def unfinished(self) -> tuple[tuple[ClusterRef, str], ...]:
        """The clusters and ids of stagings that a gateway has to go on with. Marks that name none are logged."""
        return await marked_places(self._store, STAGING, UNFINISHED)

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` items of a cluster that is deleted, with their marks. Returns how many."""
        page = await self._store.query(STAGING, _cluster(ref), limit=most)
        for item in page.items:
            kind, _, name = item.key.sk.partition("#")
            if kind == "staging":
                await self.unmark(ref, name)
            await self._store.delete(Delete(STAGING, item.key))
        return len(page.items)

    async def _transacted(self, writes: list[Write]) -> bool:
        try:
            await self._store.transact(writes, token=f"staging-{secrets.token_hex(12)}")
        except TransactionCancelled:
            return False
        return True


def _attributes(staging: Staging) -> dict[str, str]:
    return {"staging": staging.model_dump_json()}


def _stored(item: Item) -> Stored:
    return Stored(Staging.model_validate_json(str(item.attributes["staging"])), item.version)


def _cluster(ref: ClusterRef) -> str:
    return f"cluster#{ref.key}"


def _key(ref: ClusterRef, staging_id: str) -> Key:
    return Key(_cluster(ref), f"staging#{staging_id}")


def _mark(ref: ClusterRef, staging_id: str) -> Key:
    return Key(UNFINISHED, f"{ref.key}#{staging_id}")


NAMED_WITHIN = timedelta(seconds=30)
"""Time after its submit in which a job may still get its staging: the submit stores the job's id after Slurm's
answer."""
KEPT_SECONDS = 600.0
"""A staging is named later where all gateways were down. Its job then shows it after this time at the latest."""
MAX_JOBS = 50_000


class JobStagings:
    """The progress of a job's staging, as the job shows it.

    Most jobs stage nothing. The cache spares them the lookup.
    """

    def __init__(self, records: StagingRecords) -> None:
        self._records = records
        self._without = BoundedCache[tuple[ClusterRef, JobId], None](MAX_JOBS, KEPT_SECONDS)

    async def of_job(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> JobStaging | None:
        """The staging of a job, or of an array task's array; None for a job without staging. Raises StoreError.

        `age` is the time since its submit, zero where that is not known.
        """
        submitted = job_id.partition("_")[0]
        if (ref, submitted) in self._without:
            return None
        try:
            staging = await self._records.of_job(ref, submitted)
        except ValidationError:
            # Of a newer release.
            return None
        if staging is None:
            if age >= NAMED_WITHIN:
                self._without.put((ref, submitted), None)
            return None
        return view(staging)
