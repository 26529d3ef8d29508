"""A job to submit, as the API takes it, as a workflow has it, and as messages on the bus have it."""

import hashlib
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.job_fields import NO_BOOLEAN, FurtherFields
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS, Component, JobDescription, Submit
from clusterra_sbatch.parsing import Directive, scan
from clusterra_templates.parts import TemplateId
from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, RootModel, field_validator

from clusterra_gateway.http.requests.parameters import Body
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.submission.staged_files import StageIns, StageOuts, StagingPlan

_DESCRIBED = set(JobDescription.model_fields)
_FURTHER = set(FurtherFields.model_fields)

CONFIRMED = "confirmed_usd_per_hour"
"""The field that confirms a cost. It is no part of a job: earlier releases know no such field, and a submit may be
repeated with it."""


def _unset(confirmed: float | None) -> bool:
    return confirmed is None


def _to_micro_usd(confirmed: float | None) -> float | None:
    # The store takes no number that is as small as 1e-130.
    return None if confirmed is None else round(confirmed, 6)


ConfirmedCost = Annotated[
    float | None,
    Field(ge=0, le=1_000_000_000, allow_inf_nan=False, exclude_if=_unset),
    NO_BOOLEAN,
    AfterValidator(_to_micro_usd),
]
"""A confirmed cost per hour in US dollars, to six decimal places as prices are told.

None is left out of what is written: earlier releases know no such field."""


class JobToSubmit(JobDescription, FurtherFields):
    """A job to submit, in slurmrestd's shape. Memory is in MiB, `time_limit` in minutes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    confirmed_usd_per_hour: ConfirmedCost = None
    """The cost per hour in US dollars that the caller has seen and wants: needed where a job is expected to cost more
    than the cluster lets pass without it. Of a heterogeneous job that of the first component counts."""

    @field_validator("tasks", "tasks_per_node", "cpus_per_task")
    @classmethod
    def _some(cls, number: int | None) -> int | None:
        if number == 0:
            raise ValueError("must be at least 1: leave it out where Slurm is to choose")
        return number

    @property
    def description(self) -> JobDescription:
        """The part of the job that every release of the proxy knows."""
        return JobDescription.model_validate(self.model_dump(include=_DESCRIBED))

    @property
    def further(self) -> FurtherFields:
        """The rest of the job."""
        return FurtherFields.model_validate(self.model_dump(include=_FURTHER))


_STAGED = frozenset({"stage_in", "stage_out"})


class FromTemplate(Body):
    """A job with the template that it is from. It is a private attribute, so that a request cannot set it."""

    _template: str = PrivateAttr(default="")

    @property
    def template(self) -> str:
        """The template that it was rendered from; empty for none."""
        return self._template

    def with_template(self, template_id: str) -> Self:
        """The same, as rendered from this template."""
        copy = self.model_copy()
        copy._template = template_id
        return copy


class Submission(FromTemplate):
    """A job in slurmrestd's shape, with the script beside the job and not inside it."""

    script: Annotated[str, Field(min_length=1)]
    job: JobToSubmit
    stage_in: StageIns = ()
    """Files of the bucket that are in the job's working directory when it starts."""
    stage_out: StageOuts = ()
    """Files of the job's working directory that are copied to the bucket when it has ended."""

    @property
    def staged(self) -> bool:
        """Whether files are staged for the job."""
        return bool(self.stage_in or self.stage_out)

    @property
    def held(self) -> "Submission":
        """The same, with a job that is submitted held."""
        return self.model_copy(update={"job": self.job.model_copy(update={"hold": True})})

    @property
    def jobs(self) -> tuple[JobToSubmit, ...]:
        """The job alone."""
        return (self.job,)

    def canonical(self) -> bytes:
        """The same bytes for every spelling of the same submission, and as earlier releases write them if they can."""
        # Of nothing that is staged, earlier releases write nothing.
        left_out: dict[str, set[str] | bool] = {"job": _FURTHER | {CONFIRMED}}
        if not self.staged:
            left_out |= dict.fromkeys(_STAGED, True)
        described = self.model_dump_json(exclude=left_out).encode()
        further = self.job.further
        return described if further == FurtherFields() else described + further.model_dump_json().encode()

    def digest(self) -> str:
        """Identifies the submission among the requests with one Idempotency-Key."""
        return hashlib.sha256(self.canonical()).hexdigest()


_TWO_COMPONENTS: dict[str, Any] = {
    "script": "#!/bin/sh\n#SBATCH --time=30\nsrun --het-group=0,1 ./solve\n",
    "jobs": [
        {"environment": ["PATH=/usr/bin:/bin"], "name": "solve", "memory_per_cpu": 1024},
        {"environment": ["PATH=/usr/bin:/bin"], "tasks": 2, "cpus_per_task": 2, "memory_per_cpu": 4096},
    ],
}


class HeterogeneousSubmission(Body):
    """A heterogeneous job: its components have different needs and start together. The script runs in the first.

    The script's `#SBATCH` lines are those of the first component. The others get its name, its account and its time
    limit unless they have their own; all have one account.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_TWO_COMPONENTS]})

    script: Annotated[str, Field(min_length=1)]
    jobs: Annotated[tuple[JobToSubmit, ...], Field(min_length=2, max_length=MAX_COMPONENTS)]

    def canonical(self) -> bytes:
        """The same bytes for every spelling of the same submission."""
        return self.model_dump_json(exclude={"jobs": {"__all__": {CONFIRMED}}}).encode()

    def digest(self) -> str:
        """Identifies the submission among the requests with one Idempotency-Key."""
        return hashlib.sha256(self.canonical()).hexdigest()


type AnyScript = Submission | HeterogeneousSubmission
"""A job with a script of its own."""


@dataclass(frozen=True)
class WorkflowJobSubmission:
    """A job of a workflow. Slurm cancels it when a job that it depends on has failed."""

    script: str
    job: JobToSubmit
    plan: StagingPlan | None = None
    """The files that are staged for it, which were looked up when the workflow began."""
    template: str = ""
    """The template that it was rendered from; empty for none."""

    @property
    def staged(self) -> bool:
        """Whether files are staged for the job."""
        return self.plan is not None

    @property
    def held(self) -> "WorkflowJobSubmission":
        """The same, with a job that is submitted held."""
        return replace(self, job=self.job.model_copy(update={"hold": True}))

    @property
    def jobs(self) -> tuple[JobToSubmit, ...]:
        """The job alone."""
        return (self.job,)


type OneJob = Submission | WorkflowJobSubmission
"""A job that is not heterogeneous."""
type AnyJob = AnyScript | WorkflowJobSubmission


class TemplateValues(Body):
    """A template, and the values that its script is rendered with."""

    template_id: TemplateId
    params: Annotated[dict[str, Any], Field(max_length=200, default_factory=dict)]
    inputs: Annotated[dict[str, Any], Field(max_length=200, default_factory=dict)]
    sbatch_override: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    """Options of sbatch by their long names, such as `{"time": "2:00:00"}`."""
    confirmed_usd_per_hour: ConfirmedCost = None
    """The cost per hour in US dollars that the caller has seen and wants, as in the `job` of a submit."""


class TemplateSubmission(TemplateValues):
    """A job from a template: the script is rendered from the template and these values."""

    job: JobToSubmit | None = None
    """Fields of the job, which win over the script's `#SBATCH` lines and over the confirmed cost beside it."""
    stage_in: StageIns = ()
    stage_out: StageOuts = ()

    def digest(self) -> str:
        """Identifies the request among those with one Idempotency-Key, whatever version of the template it finds."""
        left_out: dict[str, set[str] | bool] = {"job": {CONFIRMED}, CONFIRMED: True}
        if not (self.stage_in or self.stage_out):
            left_out |= dict.fromkeys(_STAGED, True)
        return hashlib.sha256(self.model_dump_json(exclude=left_out).encode()).hexdigest()


class ScriptSubmission(RootModel[Submission | HeterogeneousSubmission]):
    """A job with a script of its own: one job, or the components of a heterogeneous job."""


class AnySubmission(RootModel[Submission | HeterogeneousSubmission | TemplateSubmission]):
    """A job with a script of its own, or from a template."""


def submit_message(who: Person, submission: AnyJob, key: str | None) -> Submit:
    """The request to submit a job as this person. Raises Forbidden where they are nobody on the cluster."""
    return Submit(
        user=who.slurm_user,
        email=who.member.email,
        script=submission.script,
        job=submission.jobs[0].description,
        further=submission.jobs[0].further,
        components=_further_components(submission),
        idempotency_key=key,
        kill_on_invalid_dependency=isinstance(submission, WorkflowJobSubmission),
        template="" if isinstance(submission, HeterogeneousSubmission) else submission.template,
    )


def prepare_message(user: SlurmUser, submission: AnyJob, email: str = "") -> Prepare:
    """The request to check and translate a job, which makes none. `email`: the address of the user."""
    return Prepare(
        user=user,
        email=email,
        script=submission.script,
        job=submission.jobs[0].description,
        further=submission.jobs[0].further,
        components=_further_components(submission),
    )


def asks_for_hold(script: str, job: JobDescription) -> bool:
    """Whether the job is to be held after its submit: by its own `hold`, or else by an `#SBATCH` line.

    A template writes such a line.
    """
    if job.hold is not None:
        return job.hold
    return any(isinstance(each, Directive) and each.option.long == "hold" for each in scan(script))


def _further_components(submission: AnyJob) -> tuple[Component, ...]:
    """The components of a heterogeneous job after the first; empty for any other job."""
    return tuple(Component(job=each.description, further=each.further) for each in submission.jobs[1:])
