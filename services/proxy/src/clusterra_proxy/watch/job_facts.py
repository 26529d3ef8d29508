"""What a job's record proves to have happened, so that each fact is told once however it was learnt.

A fact's version is the run's submit time and its number, both of which slurmctld and slurmdbd keep: the same fact
gets the same id from whichever of them, before and after a restart of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.events import JOB_ENDS, JobFact, JobKind
from clusterra_contracts.identity import JobId

from clusterra_proxy.slurmrestd.records import JobRecord

UNKNOWN_UID = 65534
"""Slurm's accounting tells no uid; this (`nobody`) stands for an owner that nobody told."""

_ENDS: dict[str, JobKind] = {
    "COMPLETED": "job.completed",
    "CANCELLED": "job.cancelled",
    "TIMEOUT": "job.timeout",
    "DEADLINE": "job.timeout",
    "FAILED": "job.failed",
    "NODE_FAIL": "job.failed",
    "BOOT_FAIL": "job.failed",
    "OUT_OF_MEMORY": "job.failed",
    "PREEMPTED": "job.failed",
}


@dataclass(frozen=True, slots=True)
class Happening:
    """That something happened to a job, and when; `version` tells the run."""

    job_id: JobId
    kind: JobKind
    version: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A fact with what makes its event."""

    fact: JobFact
    version: str
    time: datetime


def happenings(record: JobRecord) -> tuple[Happening, ...]:
    """All that this record proves, in the order in which it happened. An array is submitted once, under its own id."""
    submitted = record.submit_time
    if submitted is None or record.requeueing:
        return ()
    version = f"{int(submitted.timestamp())}.{record.restart_cnt}"
    if record.restart_cnt:
        happened = [Happening(record.id, "job.requeued", version, submitted)]
    else:
        happened = [Happening(str(record.array or record.job_id), "job.submitted", version, submitted)]
    if record.started is not None:
        happened.append(Happening(record.id, "job.running", version, record.started))
    if (kind := _ENDS.get(record.state)) is not None:
        happened.append(Happening(record.id, kind, version, record.end_time or record.started or submitted))
    return tuple(happened)


def occurrence(happening: Happening, record: JobRecord, user: str) -> Occurrence:
    """Something that happened, told with what its record says."""
    over = happening.kind in JOB_ENDS
    ran = happening.kind not in ("job.submitted", "job.requeued")
    fact = JobFact(
        kind=happening.kind,
        job_id=happening.job_id,
        name=record.name,
        user=user,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        partition=record.partition,
        state=record.state if over else "RUNNING" if ran else "PENDING",
        reason=record.state_reason if over and record.state_reason != "None" else "",
        exit_code=record.exit_code.return_code if over else None,
        nodes=record.hosts if ran else (),
        submitted_at=record.submit_time or happening.time,
        started_at=record.started if ran else None,
        ended_at=record.end_time if over else None,
    )
    return Occurrence(fact, happening.version, happening.time)


class Ledger:
    """Which facts of jobs have been told: by job, the version and kind of each."""

    def __init__(self) -> None:
        self._told: dict[JobId, set[tuple[str, str]]] = {}

    def add(self, job_id: JobId, version: str, kind: str) -> None:
        """Note a fact as told."""
        self._told.setdefault(job_id, set()).add((version, kind))

    def news(self, happened: Iterable[Happening]) -> tuple[Happening, ...]:
        """Those that have not been told; they count as told from now on."""
        new = []
        for happening in happened:
            told = self._told.setdefault(happening.job_id, set())
            what = (happening.version, happening.kind)
            if what not in told:
                told.add(what)
                new.append(happening)
        return tuple(new)

    def unfinished(self) -> frozenset[JobId]:
        """The jobs whose last told run has not ended. An array counts by its tasks, once one of them has run."""
        open_jobs = {
            job_id
            for job_id, told in self._told.items()
            if not any(version == max(told)[0] and kind in JOB_ENDS for version, kind in told)
        }
        arrays = {job_id.partition("_")[0] for job_id in self._told if "_" in job_id}
        return frozenset(open_jobs - arrays)

    def keep(self, job_ids: set[JobId]) -> None:
        """Forget all other jobs: Slurm shows them no more, so nothing can be told of them again."""
        for job_id in self._told.keys() - job_ids:
            del self._told[job_id]
