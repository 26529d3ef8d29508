"""Runs as the API takes and shows them."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from clusterra_contracts.identity import ClusterRef, JobId, Moment
from clusterra_contracts.rpc.job_fields import FurtherFields
from pydantic import Discriminator, Field, StringConstraints, Tag

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import InvalidRequest, TooLarge
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.requests.parameters import Body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.submission.models import JobToSubmit, Submission, TemplateValues
from clusterra_gateway.submission.staged_files import StageIns, StageOuts
from clusterra_gateway.workflows.graph import InvalidSteps, dependencies
from clusterra_gateway.workflows.run import MAX_STEPS, Run, RunState, Step, StepId, StepState, StepWork

BOUNDS = BodyBounds(MAX_BODY_BYTES, 50_000)
MAX_STEP_BYTES = 256 * 1024
MAX_RUN_BYTES = 3 * 1024 * 1024
"""Each step is an item of at most 400 KiB, and a run one transaction of at most 4 MB."""
MAX_RUN_INPUTS = 200
"""Each is looked up in the bucket before the run starts."""

DependsOn = Annotated[tuple[StepId, ...], Field(max_length=MAX_STEPS)] | None
"""The steps that must have completed before; without it, the step before this one. `[]`: none."""
RunName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class StepRequest(Body):
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
        """What the digest of its run leaves out: earlier releases write nothing of what is staged or further."""
        fields: dict[str, Any] = {} if self.staged else {"stage_in": True, "stage_out": True}
        return fields if self.job.further != FurtherFields() else {**fields, "job": set(FurtherFields.model_fields)}


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

    run_name: RunName
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1, max_length=MAX_STEPS)]

    def digest(self) -> str:
        """Identifies the run among the requests with one Idempotency-Key, whatever versions of templates it finds."""
        left_out = {index: each.left_out for index, each in enumerate(self.steps) if isinstance(each, StepRequest)}
        return hashlib.sha256(self.model_dump_json(exclude={"steps": left_out}).encode()).hexdigest()

    async def scripted(self, caller: Caller, ref: ClusterRef, templates: TemplateSteps, run_id: str) -> "ScriptedRun":
        """The run with the scripts of all steps. Raises what `TemplateSteps.step` raises."""
        steps = [
            await templates.step(caller, ref, each, run_id) if isinstance(each, TemplateStep) else each
            for each in self.steps
        ]
        return ScriptedRun(run_name=self.run_name, steps=tuple(steps))


class ScriptedRun(Body):
    """A run whose steps all have their scripts."""

    run_name: RunName
    steps: Annotated[tuple[StepRequest, ...], Field(min_length=1, max_length=MAX_STEPS)]

    def planned(self) -> tuple[tuple[Step, ...], tuple[StepWork, ...]]:
        """The steps in an order in which they can be submitted, and what each executes.

        Raises InvalidRequest, TooLarge.
        """
        try:
            order = dependencies([(each.step_id, each.depends_on) for each in self.steps])
        except InvalidSteps as error:
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
        if sum(len(each.stage_in) for each in self.steps) > MAX_RUN_INPUTS:
            raise InvalidRequest(
                f"at most {MAX_RUN_INPUTS} files are staged in for all steps of a run",
                hint="name a file in the first step that needs it: steps may share a working directory",
            )
        work = tuple(_work(by_id[each]) for each in order)
        check_sizes(work)
        return tuple(Step(step_id=each, depends_on=order[each]) for each in order), work


def _work(step: StepRequest) -> StepWork:
    return StepWork(script=step.script, job=step.job.description, further=step.job.further)


def check_sizes(work: tuple[StepWork, ...]) -> None:
    """Raises TooLarge for steps that cannot be stored."""
    sizes = [each.size for each in work]
    if max(sizes) > MAX_STEP_BYTES or sum(sizes) > MAX_RUN_BYTES:
        raise TooLarge(
            f"a step is larger than {MAX_STEP_BYTES // 1024} KiB, or all steps are larger than "
            f"{MAX_RUN_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the scripts",
        )


class StepView(ResponseBody):
    """A step of a run, as its owner sees it."""

    step_id: StepId
    depends_on: tuple[StepId, ...]
    state: StepState
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
    state: RunState
    created_at: Moment
    steps: tuple[StepView, ...]

    @classmethod
    def of(cls, run: Run) -> "RunView":
        """What its owner sees of a run."""
        shown = StepView.model_fields
        return cls(
            run_id=run.id,
            run_name=run.name,
            user=run.user.name,
            state=run.state,
            created_at=run.created_at,
            steps=tuple(StepView(**{name: getattr(step, name) for name in shown}) for step in run.steps),
        )


class RunList(ResponseBody):
    """A page of runs. The states are those that were last read."""

    runs: tuple[RunView, ...]
    cursor: str | None
    """Continues the list; null at its end."""
