"""A workflow and its jobs, as they are stored.

The API calls them a run and its steps. So do the stored fields and the names of the table and its keys."""

import operator
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from clusterra_contracts.identity import JobId, Moment, SlurmUser
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_runtime.store.item import Attributes
from pydantic import Field, model_validator

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.submission.models import ConfirmedCost
from clusterra_gateway.submission.staged_files import StagingPlan

MAX_JOBS = 64
MAX_ATTEMPTS = 20

StepId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
WorkflowJobState = Literal[
    "waiting", "submitting", "submitted", "completed", "failed", "cancelled", "rejected", "not_submitted", "unknown"
]
"""`waiting`: for its turn to be submitted; `submitting`: an attempt to submit it has begun; `submitted`: Slurm has its
job. The others are final: `rejected` by Slurm; `not_submitted` because too much time had passed; `unknown`: Slurm has
forgotten its job, or nobody knows whether there is one."""
WorkflowState = Literal["submitting", "active", "cancelling", "completed", "failed", "cancelled"]

_STAGED_STEP = "staged_step"
"""The attribute that holds a job with staged files."""
_FURTHER_STEP = "further_step"
"""The attribute that holds a job with further fields."""
UNDER_WAY = frozenset[WorkflowJobState]({"waiting", "submitting", "submitted"})


class WorkflowJob(Record):
    """A job of a workflow, at its latest attempt. Each attempt is a Slurm job of its own."""

    step_id: StepId
    depends_on: tuple[StepId, ...] = ()
    """The jobs that must have completed before this one starts. They stand before it in the workflow."""
    state: WorkflowJobState = "waiting"
    attempt: int = 1
    job_id: JobId | None = None
    job_state: str = ""
    """Slurm's state of the job, when it was last read."""
    reason: str = ""
    """Why the job ended without having completed, for its owner to read."""
    intended_at: Moment | None = None
    """When its first submit began, in this attempt."""
    submitted_at: Moment | None = None
    cancel_sent: bool = False
    """Whether Slurm was told to cancel the job."""
    earlier_jobs: tuple[JobId, ...] = ()
    """The jobs of earlier attempts."""

    @property
    def over(self) -> bool:
        """Whether this attempt has ended."""
        return self.state not in UNDER_WAY

    @property
    def failed(self) -> bool:
        """Whether this attempt has ended, and neither completed nor was cancelled."""
        return self.over and self.state not in ("completed", "cancelled")


class Workflow(Record):
    """A workflow: its owner, and the states of its jobs. The specifications of the jobs are stored beside it."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    name: str
    member: str
    """The id of its owner."""
    user: SlurmUser
    """The identity that its jobs run as."""
    created_at: Moment
    resumed_at: Moment | None = None
    cancelling: bool = False
    digest: str
    """The hash of the request, to tell a repeated request from another one."""
    steps: Annotated[tuple[WorkflowJob, ...], Field(min_length=1, max_length=MAX_JOBS)]
    """In topological order: each stands behind the jobs that it depends on."""

    @property
    def over(self) -> bool:
        """Whether no job is under way."""
        return all(job.over for job in self.steps)

    @property
    def state(self) -> WorkflowState:
        """The state of the workflow as a whole."""
        if self.over:
            states = {job.state for job in self.steps}
            if states == {"completed"}:
                return "completed"
            return "cancelled" if states <= {"completed", "cancelled"} else "failed"
        if self.cancelling:
            return "cancelling"
        return "active" if all(job.over or job.state == "submitted" for job in self.steps) else "submitting"


class WorkflowJobSpec(Record):
    """The specification of a job: its script, its fields and its staged files."""

    script: str
    job: JobDescription
    staging: StagingPlan | None = None
    """The files that are staged for its job."""
    further: FurtherFields = FurtherFields()
    """The fields of its job that `job` lacks."""
    confirmed_usd_per_hour: ConfirmedCost = None
    """The cost that its owner has confirmed."""
    template: Annotated[str, Field(exclude_if=operator.not_)] = ""
    """The template that it was rendered from; empty for none. An earlier release submits the job without it."""

    @property
    def size(self) -> int:
        """Bytes of what is stored."""
        left_out = {"further"} if self.further == FurtherFields() else set[str]()
        return len(self.model_dump_json(exclude=left_out).encode())

    @model_validator(mode="before")
    @classmethod
    def _of_any_form(cls, stored: Any) -> Any:
        if isinstance(stored, Mapping):
            return next((stored[form] for form in (_FURTHER_STEP, _STAGED_STEP) if form in stored), stored)
        return stored

    def attributes(self) -> Attributes:
        """The attributes to store.

        An earlier release cannot read a job with files or further fields, so it does not submit the job without them.
        """
        if self.further != FurtherFields():
            return {_FURTHER_STEP: self.model_dump(mode="json")}
        if self.staging is not None:
            return {_STAGED_STEP: self.model_dump(mode="json", exclude={"further"})}
        return self.model_dump(mode="json", exclude={"further", "staging"})
