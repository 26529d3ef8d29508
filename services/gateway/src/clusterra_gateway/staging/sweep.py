"""Goes on with the stagings of all clusters: soon after a submit and after the end of a job, and again after failures.

Every replica does so. The one that goes on with a staging holds a lease on it (`turn`).
"""

import asyncio
import math
from collections import Counter, defaultdict

from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.bus.job_end_wakeups import (
    PACE_SECONDS,
    SOON_SECONDS,
    WAITING_SECONDS,
    JobEndWakeups,
    RecordKey,
)
from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords

WAKING: frozenset[str] = JOB_ENDS | {"job.submitted"}
INTERVAL_SECONDS = 5.0
MAX_VISIT_SHARE = 0.02
"""The most of its time that a replica visits one array whose tasks end: a visit to 10,000 tasks may take seconds."""
RECONCILE_SECONDS = 300.0
"""How long one step of a staging may take."""
BOUNDS = Bounds(at_once=16, per_cluster=4)
TURNS_OF_PERSON = 2
"""How many stagings of one person in a cluster a replica goes on with at a time, as the edge does."""

type _Person = tuple[ClusterRef, str]


class StagingSweep:
    """Goes on with unfinished stagings every few seconds, and soon after a job is submitted or has ended."""

    def __init__(self, records: StagingRecords, reconciler: StagingReconciler) -> None:
        self._records = records
        self._reconciler = reconciler
        self._wakeups = JobEndWakeups(MAX_VISIT_SHARE)
        self._members: dict[RecordKey, str] = {}
        self._turns = Counter[_Person]()
        self._held = defaultdict[_Person, set[RecordKey]](set)
        """The stagings that wait until a turn of their person ends."""

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Go on soon: a job has ended, or one was submitted."""
        if isinstance(event.data, JobFact) and event.kind not in JOB_ENDS:
            self._wakeups.woken.set()
        self._wakeups.on_event(ref, event)

    def sweeper(self) -> Sweeper[RecordKey]:
        """Goes on with those that are due.

        Routine visits to jobs that wait come last: with a thousand such jobs, a new one would wait for minutes.
        """
        wakeups = self._wakeups
        sweep = Sweep("stagings", self._listed, self._advance, wakeups.place, (StoreError,), wakeups.woken)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, RECONCILE_SECONDS, wake_seconds=PACE_SECONDS), BOUNDS)

    async def _listed(self) -> list[RecordKey]:
        keys = await self._records.unfinished()
        self._members = {key: self._members[key] for key in keys if key in self._members}
        return self._wakeups.due(keys)

    async def _advance(self, key: RecordKey) -> None:
        person = key[0], await self._member(key)
        if self._turns[person] >= TURNS_OF_PERSON:
            self._wakeups.visit_in(key, math.inf)
            self._held[person].add(key)
            return
        self._turns[person] += 1
        try:
            await self._go_on(key)
        finally:
            self._turns -= Counter({person: 1})
            for held in self._held.pop(person, ()):
                self._wakeups.visit_in(held, 0.0)

    async def _member(self, key: RecordKey) -> str:
        """Whose staging it is; empty if it is gone."""
        if key not in self._members:
            stored = await self._records.read(*key)
            self._members[key] = "" if stored is None else stored.staging.member
        return self._members[key]

    async def _go_on(self, key: RecordKey) -> None:
        # What is neither planned nor a failure is a fault of ours, or a record of another release: it is logged seldom.
        with self._wakeups.visit(key, otherwise_seconds=WAITING_SECONDS):
            try:
                staging = await self._reconciler.reconcile(*key)
            except (StoreError, asyncio.CancelledError):
                self._wakeups.visit_in(key, INTERVAL_SECONDS)
                raise
            if staging is None:
                self._wakeups.visit_in(key, INTERVAL_SECONDS)
            elif staging.phase == "waiting" and staging.job_id is not None:
                self._wakeups.wait(key, (staging.job_id,))
            else:
                self._wakeups.end_wait(key)
                self._wakeups.visit_in(key, _pause_seconds(staging))


def _pause_seconds(staging: Staging) -> float:
    """The time until the next visit to a staging that waits for no job."""
    if staging.not_before is not None:
        return max((staging.not_before - now()).total_seconds(), SOON_SECONDS)
    turn_over = staging.phase in ("staging_in", "staging_out") and not staging.claimed_by
    return SOON_SECONDS if turn_over else INTERVAL_SECONDS
