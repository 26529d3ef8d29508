"""Derives job events from job records, so that each event is published once, whatever its source.

An event's version is the run's submit time and restart count, which both slurmctld and slurmdbd store. So the same
transition has the same event id from either source, also after a restart of the proxy.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import JOB_END_OF_STATE, JOB_ENDS, JobFact, JobKind
from clusterra_contracts.gres import gpu_count_of
from clusterra_contracts.identity import JobId, now

from clusterra_proxy.slurmrestd.gres import allocated_gres
from clusterra_proxy.slurmrestd.notation.tres import memory_mib
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import PendingEvent

UNKNOWN_UID = 65534
"""The uid that stands for an unknown owner (`nobody`): accounting's records hold no uid."""


@dataclass(frozen=True, slots=True)
class JobTransition:
    """A state transition of a job: what happened and when. `version` identifies the run."""

    job_id: JobId
    kind: JobKind
    version: str
    time: datetime


def transitions(record: JobRecord) -> tuple[JobTransition, ...]:
    """Return all transitions that a record proves, in order. An array is submitted once, under its own id."""
    submitted = record.submit_time
    if submitted is None or record.requeueing or "restart_cnt" in record.unreadable:
        return ()
    version = f"{int(submitted.timestamp())}.{record.restart_cnt}"
    if record.restart_cnt:
        found = [JobTransition(record.id, "job.requeued", version, submitted)]
    else:
        found = [JobTransition(str(record.array or record.job_id), "job.submitted", version, submitted)]
    if record.started_at is not None:
        found.append(JobTransition(record.id, "job.running", version, record.started_at))
    if (kind := JOB_END_OF_STATE.get(record.state)) is not None:
        found.append(JobTransition(record.id, kind, version, record.end_time or record.started_at or submitted))
    return tuple(found)


def job_event(
    transition: JobTransition, record: JobRecord, user: str, tasks_left: int | None = None
) -> PendingEvent[JobFact]:
    """Return the event of a transition, with the details of the job's record.

    `tasks_left`: how many tasks of the record's array have not ended; None where nobody knows.

    What has happened did so before now at the latest. So a run whose start and end are seen costs what it took, also
    where slurmctld's clock is ahead.
    """
    seen_at = now()
    over = transition.kind in JOB_ENDS
    ran = transition.kind not in ("job.submitted", "job.requeued")
    fact = JobFact(
        kind=transition.kind,
        job_id=transition.job_id,
        name=record.name,
        user=user,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        partition=record.partition,
        state=record.state if over else "RUNNING" if ran else "PENDING",
        reason=record.reason_to_show if over else "",
        exit_code=record.return_code if over else None,
        nodes=record.hosts if ran else (),
        submitted_at=record.submit_time or transition.time,
        started_at=min(record.started_at, seen_at) if ran and record.started_at is not None else None,
        ended_at=min(record.end_time, seen_at) if over and record.end_time is not None else None,
        restarts=record.restart_cnt,
        account=record.account,
        template=record.parsed_comment.template,
        cpus=record.cpus if ran else None,
        memory_mib=memory_mib(record.tres_alloc_str) if ran else None,
        gpus=_gpus(record) if ran else {},
        time_limit_seconds=None if record.time_limit is None else record.time_limit * 60.0,
        mail=record.mail_type,
        tasks_left=tasks_left if "_" in transition.job_id else None,
    )
    return PendingEvent(fact, transition.version, min(transition.time, seen_at), record.parsed_comment.trace)


def _gpus(record: JobRecord) -> dict[str, int]:
    counts = {node: gpu_count_of(gres) for node, gres in allocated_gres(record).items()}
    return {node: count for node, count in counts.items() if count}


class PublishedJobEvents:
    """The published job events: by job, the version and kind of each."""

    def __init__(self) -> None:
        self._published: dict[JobId, set[tuple[str, str]]] = {}

    def add(self, job_id: JobId, version: str, kind: str) -> None:
        """Record an event as published."""
        self._published.setdefault(job_id, set()).add((version, kind))

    def take_unpublished(self, found: Iterable[JobTransition]) -> tuple[JobTransition, ...]:
        """Return the transitions without a published event, and record them as published."""
        unpublished = []
        for transition in found:
            published = self._published.setdefault(transition.job_id, set())
            key = (transition.version, transition.kind)
            if key not in published:
                published.add(key)
                unpublished.append(transition)
        return tuple(unpublished)

    def unfinished(self) -> frozenset[JobId]:
        """Return the jobs whose last published run has no end. Once a task has run, an array counts by its tasks."""
        open_jobs = {
            job_id
            for job_id, published in self._published.items()
            if not any(version == max(published)[0] and kind in JOB_ENDS for version, kind in published)
        }
        arrays = {job_id.partition("_")[0] for job_id in self._published if "_" in job_id}
        return frozenset(open_jobs - arrays)

    def retain(self, job_ids: set[JobId]) -> None:
        """Forget all other jobs: Slurm no longer lists them, so they can have no new events."""
        for job_id in self._published.keys() - job_ids:
            del self._published[job_id]
