"""Workflows as the API takes and shows them: as runs with steps."""

import hashlib
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Protocol

from clusterra_contracts.identity import ClusterRef, JobId, Moment
from clusterra_contracts.rpc.job_fields import FurtherFields
from pydantic import Discriminator, Field, StringConstraints, Tag

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import InvalidRequest, TooLarge
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.requests.parameters import Body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.submission.models import FromTemplate, JobToSubmit, Submission, TemplateValues
from clusterra_gateway.submission.staged_files import StageIns, StageOuts
from clusterra_gateway.workflows.workflow import (
    MAX_JOBS,
    StepId,
    Workflow,
    WorkflowJob,
    WorkflowJobSpec,
    WorkflowJobState,
    WorkflowState,
)


class InvalidDependencies(ValueError):
    """The jobs of a workflow cannot be ordered. The message tells its author why."""


def dependencies(steps: Sequence[tuple[str, tuple[str, ...] | None]]) -> dict[str, tuple[str, ...]]:
    """The ids of all jobs in topological order, each with the ids of the jobs that it depends on.

    A job whose list is None depends on the job before it. Raises InvalidDependencies for a repeated id, a dependency on
    an unknown job, and a cycle.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for step_id, depends_on in steps:
        if step_id in found:
            raise InvalidDependencies(f"there are two steps {step_id}")
        found[step_id] = before if depends_on is None else tuple(dict.fromkeys(depends_on))
        before = (step_id,)
    for step_id, parents in found.items():
        for parent in parents:
            if parent not in found:
                raise InvalidDependencies(f"step {step_id} depends on {parent}, which is no step of this run")
    return {step_id: found[step_id] for step_id in _order(found)}


def _order(found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter(found).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidDependencies(f"these steps wait for each other: {circle}") from None


BOUNDS = BodyBounds(MAX_BODY_BYTES, 50_000)
MAX_JOB_BYTES = 256 * 1024
MAX_WORKFLOW_BYTES = 3 * 1024 * 1024
"""A job is an item of at most 400 KiB, and a workflow one transaction of at most 4 MB."""
MAX_WORKFLOW_INPUTS = 200
"""Each is looked up in the bucket before the workflow starts."""

DependsOn = Annotated[tuple[StepId, ...], Field(max_length=MAX_JOBS)] | None
"""The steps that must have completed before; without it, the step before this one. `[]`: none."""
WorkflowName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class StepRequest(FromTemplate):
    """A step: a job as in `jobs/submit`."""

    step_id: StepId
    script: Annotated[str, StringConstraints(pattern="^#!")]
    job: JobToSubmit
    depends_on: DependsOn = None
    stage_in: StageIns = ()
    """Files that are in the bucket when the run starts, and in the job's working directory when the job starts."""
    stage_out: StageOuts = ()
    """Files of the job's working directory that are copied to the bucket when it has ended."""

    @property
    def staged(self) -> bool:
        """Whether files are staged for its job."""
        return bool(self.stage_in or self.stage_out)

    @property
    def submission(self) -> Submission:
        """The same job as one that is submitted by itself."""
        return Submission(script=self.script, job=self.job, stage_in=self.stage_in, stage_out=self.stage_out)

    @property
    def left_out(self) -> dict[str, Any]:
        """Fields that the digest of its workflow leaves out: earlier releases do not write empty ones."""
        fields: dict[str, Any] = {} if self.staged else {"stage_in": True, "stage_out": True}
        unset = set() if self.job.further != FurtherFields() else set(FurtherFields.model_fields)
        return {**fields, "job": unset}


class TemplateStep(TemplateValues):
    """A step from a template: its script is rendered when the run starts."""

    step_id: StepId
    depends_on: DependsOn = None


def _kind(step: Any) -> str:
    if isinstance(step, Mapping):
        return "template" if "template_id" in step and "script" not in step else "script"
    return "template" if isinstance(step, TemplateStep) else "script"


AnyStep = Annotated[
    Annotated[StepRequest, Tag("script")] | Annotated[TemplateStep, Tag("template")], Discriminator(_kind)
]
"""A step with a script of its own, or from a template."""


class TemplateSteps(Protocol):
    """Renders steps from templates."""

    async def step(self, caller: Caller, ref: ClusterRef, wanted: TemplateStep, run_id: str) -> StepRequest:
        """The step with its script. Raises InvalidRequest, NotFound, Conflict, TooLarge."""
        ...


class RunRequest(Body):
    """A run: steps that are submitted together and start after each other."""

    run_name: WorkflowName
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1, max_length=MAX_JOBS)]

    def digest(self) -> str:
        """Identifies the request among those with one Idempotency-Key, whatever versions its templates have by now."""
        left_out = {index: each.left_out for index, each in enumerate(self.steps) if isinstance(each, StepRequest)}
        return hashlib.sha256(self.model_dump_json(exclude={"steps": left_out}).encode()).hexdigest()

    async def scripted(
        self, caller: Caller, ref: ClusterRef, templates: TemplateSteps, run_id: str
    ) -> "ScriptedWorkflow":
        """The workflow with the scripts of all jobs. Raises what `TemplateSteps.step` raises."""
        steps = [
            await templates.step(caller, ref, each, run_id) if isinstance(each, TemplateStep) else each
            for each in self.steps
        ]
        return ScriptedWorkflow(run_name=self.run_name, steps=tuple(steps))


class ScriptedWorkflow(Body):
    """A workflow whose jobs all have their scripts."""

    run_name: WorkflowName
    steps: Annotated[tuple[StepRequest, ...], Field(min_length=1, max_length=MAX_JOBS)]

    def planned(self) -> tuple[tuple[WorkflowJob, ...], tuple[WorkflowJobSpec, ...]]:
        """The jobs in an order in which they can be submitted, and the specification of each.

        Raises InvalidRequest, TooLarge.
        """
        try:
            order = dependencies([(each.step_id, each.depends_on) for each in self.steps])
        except InvalidDependencies as error:
            raise InvalidRequest(
                f"these steps cannot be a run: {error}", hint="give each step an id of its own, and mend `depends_on`"
            ) from None
        by_id = {each.step_id: each for each in self.steps}
        for step in self.steps:
            if step.job.dependency is not None:
                raise InvalidRequest(
                    f"step {step.step_id}: a step's job has no `dependency` of its own",
                    hint="name the steps before it in `depends_on`",
                )
        if sum(len(each.stage_in) for each in self.steps) > MAX_WORKFLOW_INPUTS:
            raise InvalidRequest(
                f"at most {MAX_WORKFLOW_INPUTS} files are staged in for all steps of a run",
                hint="name a file in the first step that needs it: steps may share a working directory",
            )
        specs = tuple(_spec(by_id[each]) for each in order)
        check_sizes(specs)
        return tuple(WorkflowJob(step_id=each, depends_on=order[each]) for each in order), specs


def _spec(step: StepRequest) -> WorkflowJobSpec:
    return WorkflowJobSpec(
        script=step.script,
        job=step.job.description,
        further=step.job.further,
        confirmed_usd_per_hour=step.job.confirmed_usd_per_hour,
        template=step.template,
    )


def check_sizes(specs: tuple[WorkflowJobSpec, ...]) -> None:
    """Raises TooLarge for jobs that cannot be stored."""
    sizes = [each.size for each in specs]
    if max(sizes) > MAX_JOB_BYTES or sum(sizes) > MAX_WORKFLOW_BYTES:
        raise TooLarge(
            f"a step is larger than {MAX_JOB_BYTES // 1024} KiB, or all steps are larger than "
            f"{MAX_WORKFLOW_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the scripts",
        )


class StepView(ResponseBody):
    """A step of a run, as its owner sees it."""

    step_id: StepId
    depends_on: tuple[StepId, ...]
    state: WorkflowJobState
    job_id: JobId | None
    """The job of the latest attempt."""
    job_state: str
    """Slurm's state of the job, when it was last read."""
    reason: str
    """Why it ended without having completed."""
    attempt: int
    earlier_jobs: tuple[JobId, ...]
    """The jobs of earlier attempts."""


class RunView(ResponseBody):
    """A run, with its steps in the order in which they are submitted."""

    run_id: str
    run_name: str
    user: str
    state: WorkflowState
    created_at: Moment
    steps: tuple[StepView, ...]

    @classmethod
    def of(cls, workflow: Workflow) -> "RunView":
        """What its owner sees of a run."""
        return cls.showing(
            workflow,
            run_id=workflow.id,
            run_name=workflow.name,
            user=workflow.user.name,
            steps=tuple(map(StepView.showing, workflow.steps)),
        )


class RunList(ResponseBody):
    """A page of runs with their present states, as far as Slurm tells them in time."""

    runs: tuple[RunView, ...]
    cursor: str | None
    """Continues the list; null at its end."""
