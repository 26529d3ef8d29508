"""Goes on with the stagings of all clusters: soon after a submit and after the end of a job, and again after failures.

Every gateway does so. The gateway that goes on with a staging holds a lease on it (`turn`).
"""

import asyncio
import random
import time
from collections import Counter, OrderedDict
from operator import itemgetter

import structlog
from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_runtime.store.store import StoreError
from pydantic import ValidationError

from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords

log = structlog.get_logger()

WAKING: frozenset[str] = JOB_ENDS | {"job.submitted"}
INTERVAL_SECONDS = 5.0
PACE_SECONDS = 0.5
"""The shortest time between two looks, however many jobs are submitted."""
WAITING_SECONDS = 300.0
"""How often a job is looked at when no event has told of its end."""
ARRAY_SECONDS = 5.0
"""How soon an array is looked at after the end of a task: not at each of many, as a look reads all its tasks."""
LOOK_SHARE = 0.02
"""The most of its time that a gateway looks at one array whose tasks end: a look at 10,000 tasks may take seconds."""
PAGE = 1000
SOON_SECONDS = 0.5
MAX_ENDED = 10_000
AT_A_TIME = 16
PER_CLUSTER = 4

type _Place = tuple[ClusterRef, str]


class StagingSweep:
    """Looks for unfinished stagings every few seconds."""

    def __init__(self, records: StagingRecords, reconciler: StagingReconciler) -> None:
        self._records = records
        self._reconciler = reconciler
        self._woken = asyncio.Event()
        self._under_way: set[_Place] = set()
        self._due: dict[_Place, float] = {}
        """When a staging is looked at again, by the monotonic clock."""
        self._waiting: dict[tuple[ClusterRef, JobId], _Place] = {}
        self._look_seconds: dict[_Place, float] = {}
        """How long the last look took at a staging that waits for the end of its job."""
        self._told: set[_Place] = set()
        """Those of whose jobs an event has told an end since the last look."""
        self._left_over = False
        """Whether others than routine looks were left for the next round."""
        self._ended: OrderedDict[tuple[ClusterRef, JobId], float] = OrderedDict()
        """The jobs, and arrays of tasks, that have ended lately, and in how many seconds each is looked at.

        One may end between the look at it and the wait for its end.
        """

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Look soon: a job has ended, or one was submitted."""
        if not isinstance(event.data, JobFact):
            return
        if event.kind in JOB_ENDS:
            number, task, _ = event.data.job_id.partition("_")
            job = ref, number
            place = self._waiting.get(job)
            seconds = self._array_seconds(place) if task else 0.0
            self._ended[job] = max(seconds, SOON_SECONDS)
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
            if place is None:
                return
            self._told.add(place)
            due = time.monotonic() + seconds
            self._due[place] = min(self._due.get(place, due), due)
            if task:
                return
        self._woken.set()

    def _array_seconds(self, place: _Place | None) -> float:
        """How soon an array is looked at after the end of a task."""
        took = 0.0 if place is None else self._look_seconds.get(place, 0.0)
        return min(max(ARRAY_SECONDS, took / LOOK_SHARE), WAITING_SECONDS)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        async with asyncio.TaskGroup() as running:
            while True:
                try:
                    async with asyncio.timeout(INTERVAL_SECONDS * random.uniform(0.8, 1.2)):  # noqa: S311
                        await self._woken.wait()
                except TimeoutError:
                    pass
                self._woken.clear()
                await asyncio.sleep(PACE_SECONDS)
                try:
                    places = await self._unfinished()
                except StoreError as error:
                    log.warning("stagings_not_read", reason=str(error))
                    continue
                self._forget(places)
                for place in self._chosen(places):
                    self._under_way.add(place)
                    running.create_task(self._advance(place))

    def _chosen(self, places: list[_Place]) -> list[_Place]:
        """Those that are due, in a random order: first those of tenants that have few, and few of each cluster.

        The routine looks at jobs that wait come last: with a thousand such jobs, a new one would wait for minutes.
        """
        at = time.monotonic()
        due = [place for place in places if self._due.get(place, 0.0) <= at and place not in self._under_way]
        random.shuffle(due)
        due.sort(key=self._is_routine)
        taken, ranked = Counter(ref.tenant for ref, _ in self._under_way), list[tuple[int, _Place]]()
        for place in due:
            ranked.append((taken[place[0].tenant], place))
            taken[place[0].tenant] += 1
        chosen: list[_Place] = []
        for _, place in sorted(ranked, key=itemgetter(0)):
            if len(self._under_way) + len(chosen) >= AT_A_TIME:
                break
            if sum(ref == place[0] for ref, _ in (*self._under_way, *chosen)) < PER_CLUSTER:
                chosen.append(place)
        self._left_over = not all(map(self._is_routine, set(due) - set(chosen)))
        return chosen

    def _is_routine(self, place: _Place) -> bool:
        """Whether a look at it is only for the case that an event was missed."""
        return place in self._look_seconds and place not in self._told

    def _forget(self, places: list[_Place]) -> None:
        there = set(places)
        self._due = {place: at for place, at in self._due.items() if place in there}
        self._waiting = {job: place for job, place in self._waiting.items() if place in there}
        self._look_seconds = {place: took for place, took in self._look_seconds.items() if place in there}
        self._told &= there

    async def _unfinished(self) -> list[_Place]:
        places: list[_Place] = []
        cursor = None
        while True:
            page, cursor = await self._records.unfinished(PAGE, cursor)
            places += page
            if cursor is None:
                return places

    async def _advance(self, place: _Place) -> None:
        seconds = INTERVAL_SECONDS
        waits, began = place in self._look_seconds, time.monotonic()
        self._told.discard(place)
        try:
            staging = await self._reconciler.reconcile(*place)
            if staging is not None:
                seconds = self._pause_seconds(place, staging)
        except StoreError as error:
            log.warning("staging_not_advanced", staging=place[1], reason=str(error))
        except ValidationError as error:
            # Not the error's text: it repeats the record. A newer release may read it.
            log.error("staging_unreadable", staging=place[1], problems=error.error_count())  # noqa: TRY400
            seconds = WAITING_SECONDS
        except Exception:
            # One staging that a fault of ours stops must not stop the others.
            log.exception("staging_failed", staging=place[1])
            seconds = WAITING_SECONDS
        finally:
            self._under_way.discard(place)
            if waits and place in self._look_seconds:
                self._look_seconds[place] = time.monotonic() - began
        self._due[place] = time.monotonic() + seconds
        if seconds <= SOON_SECONDS or self._left_over:
            self._woken.set()

    def _pause_seconds(self, place: _Place, staging: Staging) -> float:
        if staging.phase == "waiting" and staging.job_id is not None:
            job = place[0], staging.job_id
            self._waiting[job] = place
            self._look_seconds.setdefault(place, 0.0)
            return self._ended.pop(job, WAITING_SECONDS)
        self._look_seconds.pop(place, None)
        if staging.not_before is not None:
            return max((staging.not_before - now()).total_seconds(), SOON_SECONDS)
        turn_over = staging.phase in ("staging_in", "staging_out") and not staging.claimed_by
        return SOON_SECONDS if turn_over else INTERVAL_SECONDS
