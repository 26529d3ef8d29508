"""What the accounting of Slurm and the archive of events say about the submitted jobs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterra_contracts.events import JOB_ENDS, Event

SACCT = ("sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2")
FIELDS = "--format=JobIDRaw,JobName,State,Start"
FINISHED = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
_SUPERSEDED = frozenset({"REQUEUED", "NODE_FAIL"})
"""A run with this state was followed by another run of the same job."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job in Slurm's accounting."""

    job_id: str
    name: str
    state: str
    """The base state, without `by 0`."""


def runs(sacct: str) -> tuple[Run, ...]:
    """The runs in the output of sacct with FIELDS."""
    found = []
    for line in sacct.splitlines():
        job_id, name, state, _ = line.split("|")
        found.append(Run(job_id, name, state.split()[0]))
    return tuple(found)


def unfinished(accepted: Mapping[str, str], recorded: Iterable[Run]) -> set[str]:
    """The keys whose job has no finished run."""
    finished = {run.job_id for run in recorded if run.state in FINISHED}
    return {key for key, job_id in accepted.items() if job_id not in finished}


def lost(accepted: Mapping[str, str], recorded: Iterable[Run]) -> set[str]:
    """The keys that were accepted, and whose job Slurm does not know, or knows under another name."""
    known = {(run.job_id, run.name) for run in recorded}
    return {key for key, job_id in accepted.items() if (job_id, key) not in known}


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
