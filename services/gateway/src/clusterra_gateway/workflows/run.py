"""A run and its steps, as they are stored."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from clusterra_contracts.identity import JobId, Moment, SlurmUser
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_runtime.store.item import Attributes
from pydantic import Field, model_validator

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.submission.staged_files import StagingPlan

MAX_STEPS = 64
MAX_ATTEMPTS = 20

StepId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
StepState = Literal[
    "waiting", "submitting", "submitted", "completed", "failed", "cancelled", "rejected", "not_submitted", "unknown"
]
"""`waiting`: for its turn to be submitted; `submitting`: an attempt to submit it has begun; `submitted`: Slurm has its
job. The others are final: `rejected` by Slurm; `not_submitted` because too much time had passed; `unknown`: Slurm has
forgotten its job, or nobody knows whether there is one."""
RunState = Literal["submitting", "active", "cancelling", "completed", "failed", "cancelled"]

_STAGED_STEP = "staged_step"
"""The attribute that has a step with files."""
_FURTHER_STEP = "further_step"
"""The attribute that has a step with further fields of its job."""
UNDER_WAY = frozenset[StepState]({"waiting", "submitting", "submitted"})


class Step(Record):
    """A step at its latest attempt."""

    step_id: StepId
    depends_on: tuple[StepId, ...] = ()
    """The steps that must have completed before this one starts. They stand before it in the run."""
    state: StepState = "waiting"
    attempt: int = 1
    job_id: JobId | None = None
    job_state: str = ""
    """Slurm's state of the job, when it was last read."""
    reason: str = ""
    """Why the step ended without having completed, for its owner to read."""
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


class Run(Record):
    """A run: its owner, and the states of its steps. What the steps execute is stored beside it."""

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
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]
    """In an order in which each stands behind the steps that it depends on."""

    @property
    def over(self) -> bool:
        """Whether no step is under way."""
        return all(step.over for step in self.steps)

    @property
    def state(self) -> RunState:
        """The state of the run as a whole."""
        if self.over:
            states = {step.state for step in self.steps}
            if states == {"completed"}:
                return "completed"
            return "cancelled" if states <= {"completed", "cancelled"} else "failed"
        if self.cancelling:
            return "cancelling"
        return "active" if all(step.over or step.state == "submitted" for step in self.steps) else "submitting"


class StepWork(Record):
    """What a step executes."""

    script: str
    job: JobDescription
    staging: StagingPlan | None = None
    """The files that are staged for its job."""
    further: FurtherFields = FurtherFields()
    """The fields of its job that `job` lacks."""

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

        An earlier release reads no step with files or further fields, and so does not submit it without these.
        """
        if self.further != FurtherFields():
            return {_FURTHER_STEP: self.model_dump(mode="json")}
        if self.staging is not None:
            return {_STAGED_STEP: self.model_dump(mode="json", exclude={"further"})}
        return self.model_dump(mode="json", exclude={"further", "staging"})
