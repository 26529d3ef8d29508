"""A job to submit, as the API takes it: its shape and its size limits."""

import hashlib
from typing import Annotated, Any, Protocol

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS, Component, JobDescription
from clusterra_templates.parts import TemplateId
from pydantic import ConfigDict, Field, RootModel
from pydantic_core import from_json

from clusterra_gateway.http.errors import TooLarge
from clusterra_gateway.http.json_body import MAX_BODY_BYTES, BodyBounds, read_json
from clusterra_gateway.http.parameters import Body, Hints, checked, parsed
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.job_fields import LEFT_OUT, REFUSED
from clusterra_gateway.jobs.staged_files import StageIns, StageOuts

MAX_SCRIPT_BYTES = 512 * 1024
MAX_SUBMISSION_BYTES = 768 * 1024
"""A submit and what the gateway adds to it must fit into NATS' payload limit of 1 MiB."""

BOUNDS = BodyBounds(MAX_BODY_BYTES, 10_000)
"""A job has a few lists of at most 1,000 items each."""

_SET_BY_CLUSTERRA = "leave it out: Clusterra sets it, because a job runs as the person who submits it"
_DESCRIBED = set(JobDescription.model_fields)
_FURTHER = set(FurtherFields.model_fields)
HINTS: Hints = {
    **{("job", name): f"leave it out: {reason}" for name, reason in (LEFT_OUT | REFUSED).items()},
    ("script",): '`script` must be a string at the top level: {"script": "#!/bin/bash\\n...", "job": {...}}',
    ("job",): '`job` must have an environment at least: {"environment": ["PATH=/usr/bin:/bin"]}',
    ("job", "script"): "move `script` out of `job`, to the top level of the body",
    ("job", "nodes"): '`nodes` must be a string, such as "1" or "2-4"',
    ("job", "environment"): '`environment` must be a list with at least one variable, such as ["PATH=/usr/bin:/bin"]',
    ("job", "user_id"): _SET_BY_CLUSTERRA,
    ("job", "group_id"): _SET_BY_CLUSTERRA,
    ("job", "comment"): "leave it out: Clusterra keeps its own note in the comment",
    ("jobs",): "send one job in `job`, or the components of a heterogeneous job in `jobs`",
}
COMPONENT_HINTS: Hints = {
    ("script",): HINTS["script",],
    ("jobs",): f"`jobs` must have 2 to {MAX_COMPONENTS} components; send a single job in `job`",
    **dict.fromkeys([("stage_in",), ("stage_out",)], "files are staged for a single job, in `job`"),
    **{
        ("jobs", number, *path[1:]): hint
        for path, hint in HINTS.items()
        if path[0] == "job"
        for number in range(MAX_COMPONENTS)
    },
}


class JobToSubmit(JobDescription, FurtherFields):
    """A job to submit, in slurmrestd's shape. Memory is in MiB, `time_limit` in minutes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def description(self) -> JobDescription:
        """The part of the job that every release of the proxy knows."""
        return JobDescription.model_validate(self.model_dump(include=_DESCRIBED))

    @property
    def further(self) -> FurtherFields:
        """The rest of the job."""
        return FurtherFields.model_validate(self.model_dump(include=_FURTHER))


_STAGED = frozenset({"stage_in", "stage_out"})


class Submission(Body):
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
        left_out: dict[str, set[str] | bool] = {"job": _FURTHER}
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
        return self.model_dump_json().encode()

    def digest(self) -> str:
        """Identifies the submission among the requests with one Idempotency-Key."""
        return hashlib.sha256(self.canonical()).hexdigest()


type AnyScript = Submission | HeterogeneousSubmission
"""A job with a script of its own."""


def components_of(submission: AnyScript) -> tuple[Component, ...]:
    """The components of a heterogeneous job after the first, as a message has them; empty for any other job."""
    return tuple(Component(job=each.description, further=each.further) for each in submission.jobs[1:])


class TemplateValues(Body):
    """A template, and the values that its script is rendered with."""

    template_id: TemplateId
    params: Annotated[dict[str, Any], Field(max_length=200, default_factory=dict)]
    inputs: Annotated[dict[str, Any], Field(max_length=200, default_factory=dict)]
    sbatch_override: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    """Options of sbatch by their long names, such as `{"time": "2:00:00"}`."""


class TemplateSubmission(TemplateValues):
    """A job from a template: the script is rendered from the template and these values."""

    job: JobToSubmit | None = None
    """Fields of the job, which win over the script's `#SBATCH` lines."""
    stage_in: StageIns = ()
    stage_out: StageOuts = ()

    def digest(self) -> str:
        """Identifies the request among those with one Idempotency-Key, whatever version of the template it finds."""
        left_out = set() if self.stage_in or self.stage_out else set(_STAGED)
        return hashlib.sha256(self.model_dump_json(exclude=left_out).encode()).hexdigest()


class ScriptSubmission(RootModel[Submission | HeterogeneousSubmission]):
    """A job with a script of its own: one job, or the components of a heterogeneous job."""


class AnySubmission(RootModel[Submission | HeterogeneousSubmission | TemplateSubmission]):
    """A job with a script of its own, or from a template."""


class TemplateJobs(Protocol):
    """Renders jobs from templates."""

    async def submission(
        self, caller: Caller, ref: ClusterRef, wanted: TemplateSubmission, key: str | None
    ) -> Submission:
        """The job to submit. The same key gives the same run id. Raises InvalidRequest, NotFound, Conflict."""
        ...


async def read_any_submission(request: web.Request) -> AnyScript | TemplateSubmission:
    """Reads any of the bodies. That of a template has a `template_id` and no script. Raises as `read_submission`."""
    content = await read_json(request, BOUNDS)
    found = _object_in(content)
    if "template_id" in found and "script" not in found:
        return checked(TemplateSubmission, found)
    return _with_script(content, found)


async def read_submission(request: web.Request) -> AnyScript:
    """Reads the submission in the body. Raises InvalidRequest, UnsupportedMedia, TooLarge."""
    content = await read_json(request, BOUNDS)
    return _with_script(content, _object_in(content))


def _object_in(content: bytes) -> dict[str, Any]:
    """The object that a body is; empty for any other body, which its model then refuses."""
    try:
        found = from_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_script(content: bytes, found: dict[str, Any]) -> AnyScript:
    several = "jobs" in found and "job" not in found
    submission: AnyScript = (
        parsed(content, HeterogeneousSubmission, COMPONENT_HINTS) if several else parsed(content, Submission, HINTS)
    )
    check_size(submission)
    return submission


def check_size(submission: AnyScript) -> None:
    """Raises TooLarge for a submission that does not fit into a message."""
    if len(submission.script.encode()) > MAX_SCRIPT_BYTES or len(submission.canonical()) > MAX_SUBMISSION_BYTES:
        raise TooLarge(
            f"the script is larger than {MAX_SCRIPT_BYTES // 1024} KiB, or the whole submission is larger than "
            f"{MAX_SUBMISSION_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the script",
        )
