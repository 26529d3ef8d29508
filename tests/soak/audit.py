"""What the accounting of Slurm and the archive of events say about the submitted jobs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterra_contracts.events import JOB_ENDS, Event

SACCT = ("sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2")
SACCT_FIELDS = ("--starttime=now-1days", "--format=JobIDRaw,JobName,State")
SQUEUE = ("squeue", "--all", "--noheader", "--format=%i|%j|%T")
FINISHED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"})
STATE_SECONDS = 10.0
"""slurmctld stores its state a few seconds after it has accepted a job. A SIGKILL in between loses the job."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job in Slurm's accounting, or a job in its queue."""

    job_id: str
    name: str
    state: str
    """The base state, without `by 0`."""

    @property
    def job(self) -> tuple[str, str]:
        """Id and name: a slurmctld that has lost jobs gives their ids to others."""
        return self.job_id, self.name


def runs(output: str) -> tuple[Run, ...]:
    """The runs in the output of SACCT with SACCT_FIELDS, or the jobs in that of SQUEUE."""
    found = []
    for line in output.splitlines():
        job_id, name, state = line.split("|")
        found.append(Run(job_id, name, state.split()[0]))
    return tuple(found)


def unfinished(accepted: Mapping[str, str], recorded: Iterable[Run], queued: Iterable[Run]) -> set[str]:
    """The keys whose job is in Slurm's queue and has no finished run yet."""
    finished, present = _finished(recorded), {job.job for job in queued}
    return {key for key, job_id in accepted.items() if (job_id, key) in present - finished}


def lost(accepted: Mapping[str, str], recorded: Iterable[Run], queued: Iterable[Run]) -> set[str]:
    """The keys that were accepted, and whose job is neither finished nor in Slurm's queue."""
    known = _finished(recorded) | {job.job for job in queued}
    return {key for key, job_id in accepted.items() if (job_id, key) not in known}


def lost_by_slurmctld(lost: Iterable[str], accepted_at: Mapping[str, float], killed_at: Iterable[float]) -> set[str]:
    """Those lost keys whose job slurmctld had accepted just before it was killed. Times are of one clock."""
    kills = tuple(killed_at)
    return {key for key in lost if any(0 <= kill - accepted_at[key] <= STATE_SECONDS for kill in kills)}


def _finished(recorded: Iterable[Run]) -> set[tuple[str, str]]:
    return {run.job for run in recorded if run.state in FINISHED}


def doubled(recorded: Iterable[Run]) -> set[str]:
    """The keys that became several jobs, or whose job ran to its end more than once."""
    jobs: dict[str, set[str]] = {}
    completed: Counter[str] = Counter()
    for run in recorded:
        jobs.setdefault(run.name, set()).add(run.job_id)
        completed[run.name] += run.state == "COMPLETED"
    return {name for name in jobs if len(jobs[name]) > 1 or completed[name] > 1}


def unknown_to_clients(accepted: Mapping[str, str], recorded: Iterable[Run]) -> set[str]:
    """The keys of jobs that nobody was told about, although all submits have been answered."""
    return {run.name for run in recorded if run.name.startswith("soak-")} - accepted.keys()


def event_faults(accepted: Mapping[str, str], events: Iterable[Event]) -> dict[str, int]:
    """How many jobs have no event of their submit or of their end, and how many events are archived twice."""
    counted = Counter((event.subject, event.kind, event.id) for event in events)
    kinds: dict[str, set[str]] = {}
    for subject, kind, _ in counted:
        kinds.setdefault(subject, set()).add(kind)
    jobs = set(accepted.values())
    return {
        "submit_events_missing": sum("job.submitted" not in kinds.get(job, set()) for job in jobs),
        "end_events_missing": sum(not JOB_ENDS & kinds.get(job, set()) for job in jobs),
        "events_doubled": sum(count - 1 for (subject, _, _), count in counted.items() if subject in jobs and count > 1),
    }
