"""Goes on with the stagings of all clusters: soon after a submit and after the end of a job, and again after failures.

Every replica does so. The one that goes on with a staging holds a lease on it (`turn`).
"""

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords

WAKING: frozenset[str] = JOB_ENDS | {"job.submitted"}
INTERVAL_SECONDS = 5.0
PACE_SECONDS = 0.5
"""The shortest time between two looks, however many jobs are submitted."""
WAITING_SECONDS = 300.0
"""How often a job is looked at when no event has told of its end."""
ARRAY_SECONDS = 5.0
"""How soon an array is looked at after the end of a task: not at each of many, as a look reads all its tasks."""
LOOK_SHARE = 0.02
"""The most of its time that a replica looks at one array whose tasks end: a look at 10,000 tasks may take seconds."""
SOON_SECONDS = 0.5
MAX_ENDED = 10_000
RECONCILE_SECONDS = 300.0
"""How long one step of a staging may take."""
BOUNDS = Bounds(at_once=16, per_cluster=4)
TURNS_OF_PERSON = 2
"""How many stagings of one person in a cluster a replica goes on with at a time, as the edge does."""

type _Key = tuple[ClusterRef, str]
type _Person = tuple[ClusterRef, str]


class StagingSweep:
    """Looks for unfinished stagings every few seconds."""

    def __init__(self, records: StagingRecords, reconciler: StagingReconciler) -> None:
        self._records = records
        self._reconciler = reconciler
        self._woken = asyncio.Event()
        self._due: dict[_Key, float] = {}
        """When a staging is looked at again, by the monotonic clock."""
        self._waiting: dict[tuple[ClusterRef, JobId], _Key] = {}
        self._look_seconds: dict[_Key, float] = {}
        """How long the last look took at a staging that waits for the end of its job."""
        self._told: set[_Key] = set()
        """Those of whose jobs an event has told an end since the last look."""
        self._ended = BoundedCache[tuple[ClusterRef, JobId], float](MAX_ENDED)
        """The jobs, and arrays of tasks, that have ended lately, and in how many seconds each is looked at.

        One may end between the look at it and the wait for its end.
        """
        self._members: dict[_Key, str] = {}
        self._turns = Counter[_Person]()
        self._held = defaultdict[_Person, set[_Key]](set)
        """The stagings that wait until a turn of their person ends."""

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Look soon: a job has ended, or one was submitted."""
        if not isinstance(event.data, JobFact):
            return
        if event.kind in JOB_ENDS:
            number, task, _ = event.data.job_id.partition("_")
            job = ref, number
            place = self._waiting.get(job)
            seconds = self._array_seconds(place) if task else 0.0
            self._ended.put(job, max(seconds, SOON_SECONDS))
            if place is None:
                return
            self._told.add(place)
            due = time.monotonic() + seconds
            self._due[place] = min(self._due.get(place, due), due)
            if task:
                return
        self._woken.set()

    def _array_seconds(self, place: _Key | None) -> float:
        """How soon an array is looked at after the end of a task."""
        took = 0.0 if place is None else self._look_seconds.get(place, 0.0)
        return min(max(ARRAY_SECONDS, took / LOOK_SHARE), WAITING_SECONDS)

    def sweeper(self) -> Sweeper[_Key]:
        """Goes on with those that are due.

        Routine looks at jobs that wait come last: with a thousand such jobs, a new one would wait for minutes.
        """
        sweep = Sweep("stagings", self._listed, self._advance, self._place, (StoreError,), self._woken)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, RECONCILE_SECONDS, wake_seconds=PACE_SECONDS), BOUNDS)

    async def _listed(self) -> list[_Key]:
        places = await self._records.unfinished()
        self._forget(places)
        at = time.monotonic()
        return [place for place in places if self._due.get(place, 0.0) <= at]

    def _place(self, key: _Key) -> Place:
        return Place(key[0].tenant, key[0].cluster, key[1], routine=self._is_routine(key))

    def _is_routine(self, place: _Key) -> bool:
        """Whether a look at it is only for the case that an event was missed."""
        return place in self._look_seconds and place not in self._told

    def _forget(self, places: Iterable[_Key]) -> None:
        there = set(places)
        self._due = {place: at for place, at in self._due.items() if place in there}
        self._waiting = {job: place for job, place in self._waiting.items() if place in there}
        self._look_seconds = {place: took for place, took in self._look_seconds.items() if place in there}
        self._told &= there
        self._members = {place: member for place, member in self._members.items() if place in there}

    async def _advance(self, place: _Key) -> None:
        person = place[0], await self._member(place)
        if self._turns[person] >= TURNS_OF_PERSON:
            self._due[place] = math.inf
            self._held[person].add(place)
            return
        self._turns[person] += 1
        try:
            await self._go_on(place)
        finally:
            self._turns -= Counter({person: 1})
            if held := self._held.pop(person, None):
                self._due.update(dict.fromkeys(held, 0.0))
                self._woken.set()

    async def _member(self, place: _Key) -> str:
        """Whose staging it is; empty if it is gone."""
        if place not in self._members:
            stored = await self._records.read(*place)
            self._members[place] = "" if stored is None else stored.staging.member
        return self._members[place]

    async def _go_on(self, place: _Key) -> None:
        seconds = WAITING_SECONDS
        waits, began = place in self._look_seconds, time.monotonic()
        self._told.discard(place)
        # Until this visit ends it is not due, unless an event tells of its job.
        self._due[place] = math.inf
        try:
            staging = await self._reconciler.reconcile(*place)
            seconds = INTERVAL_SECONDS if staging is None else self._pause_seconds(place, staging)
        except (StoreError, asyncio.CancelledError):
            seconds = INTERVAL_SECONDS
            raise
        finally:
            if waits and place in self._look_seconds:
                self._look_seconds[place] = time.monotonic() - began
            self._due[place] = time.monotonic() + seconds
        if seconds <= SOON_SECONDS:
            self._woken.set()

    def _pause_seconds(self, place: _Key, staging: Staging) -> float:
        if staging.phase == "waiting" and staging.job_id is not None:
            job = place[0], staging.job_id
            self._waiting[job] = place
            self._look_seconds.setdefault(place, 0.0)
            return self._ended.pop(job) or WAITING_SECONDS
        self._look_seconds.pop(place, None)
        if staging.not_before is not None:
            return max((staging.not_before - now()).total_seconds(), SOON_SECONDS)
        turn_over = staging.phase in ("staging_in", "staging_out") and not staging.claimed_by
        return SOON_SECONDS if turn_over else INTERVAL_SECONDS
