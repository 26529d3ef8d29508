"""When a sweep visits the records that wait for jobs: soon after one ends, and seldom in case an event was missed."""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.sweeps.agenda import Place

PACE_SECONDS = 0.5
"""The shortest time between two rounds of such a sweep, however many jobs end."""
WAITING_SECONDS = 300.0
"""How often a record is visited when no event has told of the end of one of its jobs."""
SOON_SECONDS = 0.5
ARRAY_SECONDS = 5.0
"""How soon a record is visited after the end of a task of an array: not at each of many, as a visit reads all tasks."""
MAX_ENDED = 10_000

type RecordKey = tuple[ClusterRef, str]
"""A record of a cluster, by its id."""
type _Job = tuple[ClusterRef, JobId]


class JobEndWakeups:
    """The times of the next visits to the records of one sweep, by the monotonic clock."""

    def __init__(self, max_visit_share: float = 1.0) -> None:
        """`max_visit_share`: the most of its time that a replica visits one record while tasks of its arrays end."""
        self._max_visit_share = max_visit_share
        self.woken = asyncio.Event()
        """Set when a record is due before the next regular round."""
        self._due: dict[RecordKey, float] = {}
        """When a record is visited next. One that is not here is due."""
        self._waiting: dict[_Job, RecordKey] = {}
        """The records that wait for the end of a job, or of an array."""
        self._visit_seconds: dict[RecordKey, float] = {}
        """How long the last visit took to a record that waits for a job."""
        self._notified: set[RecordKey] = set()
        """Those of whose jobs an event has told an end since the last visit began."""
        self._ended = BoundedCache[_Job, float](MAX_ENDED)
        """The jobs and arrays that have ended lately, each with the seconds after which its record is visited.

        One may end before a record is known to wait for it, or before Slurm's records show its end.
        """

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Visit the record of a job soon that has ended."""
        if not isinstance(event.data, JobFact) or event.kind not in JOB_ENDS:
            return
        number, task, _ = event.data.job_id.partition("_")
        key = self._waiting.get((ref, number))
        seconds = self._array_seconds(key) if task else 0.0
        self._ended.put((ref, number), max(seconds, SOON_SECONDS))
        if key is None:
            return
        self._notified.add(key)
        due = time.monotonic() + seconds
        self._due[key] = min(self._due.get(key, due), due)
        if not task:
            self.woken.set()

    def _array_seconds(self, key: RecordKey | None) -> float:
        took = 0.0 if key is None else self._visit_seconds.get(key, 0.0)
        return min(max(ARRAY_SECONDS, took / self._max_visit_share), WAITING_SECONDS)

    def due(self, keys: Iterable[RecordKey]) -> list[RecordKey]:
        """Those of all records that are due now. What is known of others is forgotten."""
        found = dict.fromkeys(keys)
        self._due = {key: at for key, at in self._due.items() if key in found}
        self._waiting = {job: key for job, key in self._waiting.items() if key in found}
        self._visit_seconds = {key: took for key, took in self._visit_seconds.items() if key in found}
        self._notified &= found.keys()
        at = time.monotonic()
        return [key for key in found if self._due.get(key, 0.0) <= at]

    def place(self, key: RecordKey) -> Place:
        """Where a record is. A visit is routine where it is made only in case an event was missed."""
        ref, record = key
        routine = key in self._visit_seconds and key not in self._notified
        return Place(ref.tenant, ref.cluster, record, routine=routine)

    @contextmanager
    def visit(self, key: RecordKey, *, otherwise_seconds: float) -> Iterator[None]:
        """A visit to a record. Until its end, the record is due only if an event tells of one of its jobs.

        The next visit is `otherwise_seconds` after the end of one in which neither `wait` nor `visit_in` was called.
        """
        waited, began = key in self._visit_seconds, time.monotonic()
        self._notified.discard(key)
        self._due[key] = math.inf
        try:
            yield
        finally:
            if waited and key in self._visit_seconds:
                self._visit_seconds[key] = time.monotonic() - began
            if self._due.get(key) == math.inf:
                self._due[key] = time.monotonic() + otherwise_seconds

    def wait(self, key: RecordKey, job_ids: Iterable[JobId]) -> None:
        """Visit a record again when one of these jobs or arrays has ended. An event may have told so already."""
        seconds = WAITING_SECONDS
        for job_id in job_ids:
            self._waiting[key[0], job_id] = key
            seconds = min(seconds, self._ended.pop((key[0], job_id)) or WAITING_SECONDS)
        self._visit_seconds.setdefault(key, 0.0)
        self.visit_in(key, seconds)

    def end_wait(self, key: RecordKey) -> None:
        """Note that a record waits for no job any more: its visits are not routine."""
        self._visit_seconds.pop(key, None)

    def visit_in(self, key: RecordKey, seconds: float) -> None:
        """Visit a record after this time, or earlier when one of its jobs ends."""
        self._due[key] = time.monotonic() + seconds
        if seconds <= SOON_SECONDS:
            self.woken.set()
