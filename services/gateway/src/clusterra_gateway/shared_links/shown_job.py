"""What a link shows of a job: its name, its states and times, what it asks for, and what the owner lets it show.

No path, no environment, no address, no other person and no other job. The script is read for itself, by a link that
shows it.
"""

import re
from datetime import datetime
from typing import Literal

from clusterra_contracts.identity import JobId, Moment, ShapeName
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import Job
from clusterra_contracts.rpc.why import Cause, PlaceKind

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.jobs.costs import Cost
from clusterra_gateway.jobs.explanations import JobExplanation, from_job

_REASON_WORD = re.compile(r"[A-Za-z_/]+(?=[,:(\s]|\Z)")
"""What a reason of Slurm begins with. After it stands Slurm's own text, which may name nodes, users and files."""
_OTHER_REASON = "Other"
_RESERVATION = re.compile(r"(waits for its reservation) .*?(?=\. No worker is bought|\.?\Z)", re.DOTALL)


class ShownPlace(ResponseBody):
    """A worker that the job runs on, or is planned to run on."""

    kind: PlaceKind
    shape: ShapeName | None
    """Null for a node that is not one of our workers."""


class ShownExplanation(ResponseBody):
    """Why the job waits, where it runs, or how it ended: as `jobs/{job_id}/why` says it, without names."""

    state: Literal["pending", "running", "ended"]
    reason: str
    """The first word of Slurm's reason."""
    cause: Cause | None
    text: str
    places: tuple[ShownPlace, ...]
    expected_start: Moment | None
    as_of: Moment

    @classmethod
    def of(cls, told: JobExplanation) -> "ShownExplanation":
        """What may be shown of an explanation."""
        places = tuple(ShownPlace(kind=each.kind, shape=each.shape) for each in told.places)
        reason = _reason_word(told.reason)
        return cls.showing(told, places=places, reason=reason, text=_without_names(told, reason))


class SharedJob(ResponseBody):
    """The job of a shared link."""

    job_id: JobId
    name: str
    state: str
    submitted_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    time_limit_seconds: float | None
    exit_code: int | None
    signal: int | None
    restarts: int
    array_tasks: str
    """For a pending array, the tasks that have not started, in Slurm's format."""
    cpus: int
    tasks: int
    node_count: int
    memory_per_node_mib: int | None
    memory_per_cpu_mib: int | None
    memory_per_gpu_mib: int | None
    gres: str
    """The generic resources that it asks for, such as GPUs."""
    peak_memory_mib: int | None
    cpu_efficiency: float | None
    shows: tuple[str, ...]
    """What the link shows besides the job itself: any of `output`, `cost`, `why` and `script`."""
    expires_at: Moment
    """When the link expires."""
    cost: Cost | None
    """Null when the link does not show it, and while it is not known."""
    why: ShownExplanation | None
    """Null when the link does not show it, and while it is not known."""


class SharedScript(ResponseBody):
    """The script of the job of a shared link."""

    job_id: JobId
    script: str
    """As it was submitted, with its `#SBATCH` lines."""


def _reason_word(reason: str) -> str:
    """The word of a reason such as `ReqNodeNotAvail, UnavailableNodes:n[3-7]`; `Other` for one without such a word."""
    found = _REASON_WORD.match(reason)
    return found[0] if found else reason and _OTHER_REASON


def _without_names(told: JobExplanation, reason: str) -> str:
    """The text with this reason, and without the names of its reservation and of the nodes among the places."""
    # The reason before the names: it may have some of them.
    text = told.text.replace(told.reason, reason) if told.reason else told.text
    text = _RESERVATION.sub(r"\1", text)
    names = sorted((each.worker for each in told.places if each.worker), key=len, reverse=True)
    if not names:
        return text
    return re.sub(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])", "a node", text)


def explained_from_record(job: Job, at: datetime) -> ShownExplanation | None:
    """How a job has ended; None for one that has not.

    From Slurm's record without what only the owner knows: where its files are, and who has cancelled it.
    """
    if job.state not in ENDED:
        return None
    shown = job.model_copy(update={"standard_output": "", "standard_error": "", "cancelled_by": None})
    return ShownExplanation.of(from_job(shown, at))
