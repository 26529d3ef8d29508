"""Submits what was rendered: a job, or a workflow."""

import hashlib
import secrets

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.wrong_values import summary
from clusterra_runtime.nats.registry import Registry
from clusterra_templates.definitions import AnyWorkflow
from clusterra_templates.paths import StagedPaths
from clusterra_templates.rendering import Wanted
from pydantic import ValidationError

from clusterra_gateway.http.requests.errors import InvalidRequest, NotFound
from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.submission.models import CONFIRMED, JobToSubmit, Submission, TemplateSubmission
from clusterra_gateway.submission.reading import check_size
from clusterra_gateway.submission.staged_files import StageIn, StageOut
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.models import Launched, LaunchRequest
from clusterra_gateway.templates.rendering import Prepared, RenderedStep, Renderings
from clusterra_gateway.workflows.models import ScriptedWorkflow, StepRequest, TemplateStep
from clusterra_gateway.workflows.start import WorkflowStarts, run_id_of

ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin",)
"""The environment of jobs whose request gives none."""
SHORT_RUN_ID = 12
"""How many digits of a run's id are in the paths that templates write."""


class Launches:
    """Submits templates for requests."""

    def __init__(
        self, renderings: Renderings, desk: SubmitDesk, starts: WorkflowStarts, access: Access, registry: Registry
    ) -> None:
        self.prepare, self.preview = renderings.prepare, renderings.preview
        self._renderings = renderings
        self._desk = desk
        self._starts = starts
        self._access = access
        self._registry = registry

    async def on_cluster(self, caller: Caller, wanted: str | None) -> tuple[Caller, ClusterRef]:
        """The cluster of a request, the named or the only one of the tenant, and before it the caller as it sees them.

        Raises NotFound, InvalidRequest, StoreError.
        """
        own = [ref for ref in self._registry.clusters if ref.tenant == caller.member.tenant]
        if wanted is not None:
            own = [ref for ref in own if ref.cluster == wanted]
        if not own:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        if len(own) > 1:
            names = ", ".join(sorted(ref.cluster for ref in own))
            raise InvalidRequest("`cluster_id` is missing", hint=f"your clusters are {names}")
        return await self._access.seen_by(own[0], caller), own[0]

    async def check(self, caller: Caller, ref: ClusterRef, prepared: Prepared) -> None:
        """Check what will be submitted later. Raises InvalidRequest, Forbidden, NotFound, TooLarge, RpcFailed."""
        for step in prepared.steps:
            await self._desk.check(caller, ref, job_of(step, None, None))

    async def submission(
        self, caller: Caller, ref: ClusterRef, wanted: TemplateSubmission, key: str | None
    ) -> Submission:
        """The job of a template, for the ordinary submit. Raises InvalidRequest, NotFound, Conflict, TooLarge."""
        values = Wanted(wanted.params, wanted.inputs, wanted.sbatch_override)
        run_id = job_run_id(ref, caller.member.id, key)
        prepared = await self.prepare(ref, caller.slurm_user.name, wanted.template_id, values, run_id)
        if isinstance(prepared.found.definition, AnyWorkflow):
            raise InvalidRequest(
                "a workflow is several jobs", hint=f"POST /v1/launchables/{wanted.template_id}/submit starts its run"
            )
        return job_of(prepared.steps[0], wanted.job, wanted.confirmed_usd_per_hour)

    async def step(self, caller: Caller, ref: ClusterRef, wanted: TemplateStep, run_id: str) -> StepRequest:
        """A job of a workflow. Raises InvalidRequest, NotFound, Conflict, TooLarge."""
        try:
            made = await self._renderings.step(ref, caller.slurm_user.name, wanted, run_id[:SHORT_RUN_ID])
        except InvalidRequest as error:
            raise InvalidRequest(f"step {wanted.step_id}: {error.detail}", hint=error.hint) from None
        submission = job_of(made, None, wanted.confirmed_usd_per_hour)
        return _step_of(wanted.step_id, submission, wanted.depends_on)

    async def launch(self, request: web.Request, caller: Caller, template_id: str, wanted: LaunchRequest) -> Launched:
        """Submit a template, once for an Idempotency-Key. Raises what submits and starts of workflows raise, too."""
        caller, ref = await self.on_cluster(caller, wanted.cluster_id)
        key = idempotency_key(request)
        prepared = await self.prepare(
            ref, caller.slurm_user.name, template_id, wanted_of(wanted), job_run_id(ref, caller.member.id, key)
        )
        first = prepared.steps[0]
        launched = Launched(
            id=template_id,
            version=prepared.found.version,
            cluster_id=ref.cluster,
            job_id=None,
            run_id=None,
            repeated=False,
            output_dir=first.rendered.output_dir if first.step_id is None else None,
            warnings=tuple(dict.fromkeys(each for step in prepared.steps for each in step.rendered.warnings)),
        )
        if not isinstance(prepared.found.definition, AnyWorkflow):
            job, digest = job_of(first, None, wanted.confirmed_usd_per_hour), _digest(template_id, wanted, {CONFIRMED})
            submitted = await self._desk.submit(caller, ref, job, key, digest)
            changes = {"job_id": submitted.job_id, "repeated": submitted.repeated}
            return launched.model_copy(update=changes)
        name = wanted.run_name or prepared.found.definition.name
        run = workflow_of(name, prepared.steps, wanted.confirmed_usd_per_hour)
        run_id = run_id_of(ref, caller.member.id, key)
        # A run keeps what was confirmed at its start: another confirmation is another request.
        _, repeated = await self._starts.start(caller, ref, run, run_id, digest=_digest(template_id, wanted, set()))
        return launched.model_copy(update={"run_id": run_id, "repeated": repeated})


def wanted_of(wanted: LaunchRequest) -> Wanted:
    """The values of a request; its flat fields are parameters beside the others."""
    return Wanted({**(wanted.model_extra or {}), **wanted.params}, wanted.inputs, wanted.sbatch_override)


def job_run_id(ref: ClusterRef, member: str, key: str | None) -> str:
    """Names a job in the paths that its template writes: with an Idempotency-Key always the same."""
    if key is None:
        return secrets.token_hex(SHORT_RUN_ID // 2)
    return hashlib.sha256(f"job#{ref.key}#{member}#{key}".encode()).hexdigest()[:SHORT_RUN_ID]


def job_of(step: RenderedStep, job: JobToSubmit | None, confirmed: float | None) -> Submission:
    """The job of a rendered template. Without a name, it has that of the template. Raises InvalidRequest, TooLarge.

    `confirmed`: the confirmed cost in USD per hour of a `job` that has none of its own.
    """
    job = job or JobToSubmit(environment=ENVIRONMENT)
    if job.confirmed_usd_per_hour is None:
        job = job.model_copy(update={CONFIRMED: confirmed})
    if job.name == "job" and "--job-name" not in step.rendered.script and " -J" not in step.rendered.script:
        job = job.model_copy(update={"name": step.template_id})
    staged = step.rendered.staged
    if staged is None:
        submission = Submission(script=step.rendered.script, job=job)
    else:
        submission = _with_staging(step, staged, job)
    check_size(submission)
    return submission.with_template(step.template_id)


def _with_staging(step: RenderedStep, staged: StagedPaths, job: JobToSubmit) -> Submission:
    """The job with the files that its template stages, checked as those of any submit. Raises InvalidRequest."""
    folder = job.current_working_directory or staged.current_working_directory
    try:
        return Submission(
            script=step.rendered.script,
            job=job.model_copy(update={"current_working_directory": folder}),
            stage_in=tuple(StageIn(source=source, destination=to) for source, to in staged.stage_in),
            stage_out=tuple(StageOut(source=source, destination=to) for source, to in staged.stage_out),
        )
    except ValidationError as error:
        given = str(error.errors(include_url=False, include_context=False)[0]["input"])
        raise InvalidRequest(
            f"the template {step.template_id} stages a file that has no such path: {given[:100]!r}: "
            f"{summary(error, most=1)}",
            hint="change the value that is in the path",
        ) from None


def workflow_of(name: str, steps: tuple[RenderedStep, ...], confirmed: float | None) -> ScriptedWorkflow:
    """The workflow of rendered jobs. `confirmed`: USD per hour, of each job. Raises InvalidRequest, TooLarge."""
    return ScriptedWorkflow(
        run_name=name[:200],
        steps=tuple(
            _step_of(each.step_id or each.template_id, job_of(each, None, confirmed), each.depends_on) for each in steps
        ),
    )


def _step_of(step_id: str, submission: Submission, depends_on: tuple[str, ...] | None) -> StepRequest:
    return StepRequest(
        step_id=step_id,
        script=submission.script,
        job=submission.job,
        depends_on=depends_on,
        stage_in=submission.stage_in,
        stage_out=submission.stage_out,
    ).with_template(submission.template)


def _digest(template_id: str, wanted: LaunchRequest, left_out: set[str]) -> str:
    return hashlib.sha256(f"{template_id}\n{wanted.model_dump_json(exclude=left_out)}".encode()).hexdigest()
