"""Polls the jobs of a cluster: cheap polls of all states, single reads of changed records, and rarely a full list."""

import asyncio
import time
from collections.abc import Iterable

import structlog
from clusterra_contracts.identity import JobId, now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.accounting_records import SUPERSEDED
from clusterra_proxy.slurmrestd.errors import NotFound, SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.slurmctld import JobList
from clusterra_proxy.watch.event_queue import EventQueue
from clusterra_proxy.watch.job_facts import PublishedJobEvents, job_event, transitions
from clusterra_proxy.watch.job_spans import JobSpans
from clusterra_proxy.watch.replay import RETENTION

log = structlog.get_logger(__name__)

RECONCILE_SECONDS = 5.0
"""How often changed jobs are listed in full: reasons and priorities change without the state."""
LIST_INTERVAL_RATIO = 50
"""Minimum ratio of the interval between lists to the duration of a list. A list of 2,000 jobs takes 1.2 s, so they are
listed once a minute."""
MAX_SINGLE_READS = 8
"""Up to this number, changed records are always read one by one."""
LISTED_JOBS_PER_READ = 5
"""Reading one record takes as long as this number of records in a list."""
MAX_STATE_ROWS = 10_000
"""The most rows of arrays for which all states are read. A list has one record for the waiting tasks of an array, the
states have a row for each, and slurmrestd takes time by the square of their number: 0.4 s for 10,000, minutes for
100,000. For more rows of other jobs the states are read with the time limit of a list, which would take longer."""
ROWS_PER_RECORD = 2
"""With fewer rows than this per record, the rows are not those of large arrays, and a list takes as long."""
LIST_ONLY_RATIO = 4
"""As LIST_INTERVAL_RATIO, while lists replace the states."""
LOST_JOB_SECONDS = 60.0
"""How long accounting is asked for the end of a job that slurmctld has purged."""


class JobPoll:
    """The watcher's part for jobs. Queues no events before the published ones are known (`start_publishing`)."""

    def __init__(self, cluster: Cluster, events: EventQueue) -> None:
        self.spans = JobSpans(cluster)
        self._cluster = cluster
        self._events = events
        self._published: PublishedJobEvents | None = None
        self._replayed = False
        self._last_update: int | None = None
        self._next_list_at = 0.0
        self._lost: dict[JobId, tuple[JobRecord, float]] = {}

    def start_publishing(self, published: PublishedJobEvents) -> None:
        """Queue all unpublished events that the table proves, and from now on those of every poll."""
        self._published = published
        self._replayed = False
        self.queue_events(self._cluster.jobs)

    def replay(self, missed: Iterable[JobRecord]) -> None:
        """Queue events missed while no replica watched. Only after this are published events of purged jobs pruned."""
        records = tuple(missed)
        self._cluster.jobs.settled_at = now()
        self.queue_events(records)
        self._replayed = True

    def queue_events(self, records: Iterable[JobRecord], *, all_read: bool = False) -> None:
        """Queue the unpublished events that records prove, once the published ones are known.

        Events older than the event stream's retention count as published, because nothing can prove otherwise.
        `all_read`: whether the table is that of one poll, so that it tells how many tasks of an array are left.
        """
        if self._published is None:
            return
        oldest = now() - RETENTION
        for record in records:
            if not self._events.accepts:
                return
            for transition in self._published.take_unpublished(transitions(record)):
                if transition.time > oldest:
                    left = self._tasks_left(record) if all_read else None
                    self._events.put(job_event(transition, record, self._cluster.owner_name(record), left))
                    self.spans.add(transition, record)

    def _tasks_left(self, record: JobRecord) -> int | None:
        if record.array is None or self._cluster.unidentified_jobs:
            return None
        return self._cluster.jobs.tasks_left(record.array)

    async def poll(self) -> None:
        """Update the table. Raises the errors of `slurmrestd.errors`; the next poll then continues."""
        try:
            await self._poll(self._cluster.mint.operator_token())
        except SlurmFailed:
            # Slurm may return with other jobs under the same ids, so the next list must be a full one. It comes before
            # the states, because a new array may be the reason why these took too long.
            self._last_update = None
            self._next_list_at = 0.0
            raise

    async def _poll(self, token: str) -> None:
        if time.monotonic() >= self._next_list_at:
            requested_at = now()
            await self._list(token)
            if self._lists_only:
                self.queue_events(self._cluster.jobs.cancelled_tasks(requested_at), all_read=True)
                self._cluster.jobs_polled(requested_at)
        if self._lists_only:
            return
        requested_at = now()
        states = await self._cluster.slurmctld.states(token, many=self._cluster.jobs.state_rows > MAX_STATE_ROWS)
        diff = self._cluster.jobs.apply_states(states.jobs, requested_at, unidentified=states.unidentified)
        self._note_lost(diff.removed)
        await self._read(token, diff.changed, len(states.jobs))
        self.queue_events(self._cluster.jobs.cancelled_tasks(requested_at), all_read=True)
        self._cluster.jobs_polled(requested_at)

    @property
    def _lists_only(self) -> bool:
        """Whether large arrays make the states more expensive than a list."""
        rows = self._cluster.jobs.state_rows
        return rows > max(MAX_STATE_ROWS, ROWS_PER_RECORD * len(self._cluster.jobs))

    async def resolve_lost_jobs(self) -> None:
        """Ask accounting for the end of jobs that slurmctld purged before their end was observed.

        Raises the errors of `slurmrestd.errors`; call it again then.
        """
        if self._published is None:
            return
        for job_id, (record, since) in tuple(self._lost.items()):
            runs = await self._cluster.accounting.job(self._cluster.mint.operator_token(), job_id)
            owner = {"user_id": record.user_id, "user_name": record.user_name}
            if any(run.ended for run in runs):
                self._cluster.jobs.settled_at = now()
            self.queue_events(run.model_copy(update=owner) for run in runs if run.ended)
            if any(_ends(run, record) for run in runs):
                del self._lost[job_id]
            elif time.monotonic() - since > LOST_JOB_SECONDS:
                log.warning(
                    "job_end_unknown", job_id=job_id, hint="neither slurmctld nor slurmdbd has the end of the job"
                )
                del self._lost[job_id]

    def _note_lost(self, removed: Iterable[JobRecord]) -> None:
        for record in removed:
            if not record.ended:
                self._lost[record.id] = record, time.monotonic()

    async def _list(self, token: str) -> None:
        began = time.monotonic()
        listed = await self._cluster.slurmctld.jobs(token, changed_after=self._last_update)
        took = time.monotonic() - began
        self._next_list_at = time.monotonic() + max(RECONCILE_SECONDS, LIST_INTERVAL_RATIO * took)
        if listed is not None:
            self._apply(listed)
        if self._lists_only:
            # An answer without jobs would mean that none has changed, or that none is left. The states tell, a full
            # list too.
            self._last_update = None
            self._next_list_at = time.monotonic() + LIST_ONLY_RATIO * took

    def _apply(self, listed: JobList) -> None:
        requested_at, records, self._last_update, unidentified = listed
        self._cluster.unidentified_jobs = unidentified
        self._note_lost(self._cluster.jobs.replace(records, requested_at, unidentified=unidentified))
        self.queue_events(map(self._cluster.jobs.admitted, records), all_read=True)
        if self._published is not None and self._replayed:
            retained = {record.id for record in self._cluster.jobs} | self._lost.keys()
            self._published.retain(retained | {job_id.partition("_")[0] for job_id in retained})

    async def _read(self, token: str, changed: frozenset[int], total: int) -> None:
        if len(changed) > max(MAX_SINGLE_READS, total / LISTED_JOBS_PER_READ):
            self._last_update = None
            await self._list(token)
            return
        # Await all reads: after one failure, no other read may finish during a later poll.
        results = await asyncio.gather(*(self._read_one(token, number) for number in changed), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException)]
        read = [record for each in results if not isinstance(each, BaseException) for record in each]
        self.queue_events(map(self._cluster.jobs.admitted, read), all_read=not failures)
        for failure in failures:
            raise failure

    async def _read_one(self, token: str, number: int) -> tuple[JobRecord, ...]:
        requested_at = now()
        try:
            records = tuple(await self._cluster.slurmctld.job(token, str(number)))
        except NotFound:
            # Purged since the poll of the states: the next poll removes it, if it was known at all.
            self._cluster.jobs.settled_at = now()
            return ()
        for record in records:
            self._cluster.jobs.put(record, requested_at)
        return records


def _ends(run: JobRecord, lost: JobRecord) -> bool:
    if run.submit_time is None or lost.submit_time is None:
        return run.ended
    return run.ended and run.state != SUPERSEDED and run.submit_time >= lost.submit_time
