"""Submits jobs: applies the script's directives, adds defaults, and creates one job per idempotency key."""

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import JobDescription, Submit, Submitted
from clusterra_runtime import trace
from clusterra_sbatch.applying import Applied
from clusterra_sbatch.checking import with_flags
from clusterra_sbatch.environment import DEFAULT_PATH

from clusterra_proxy.admission import job_limits
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.accounts.check import check_account
from clusterra_proxy.requests.cancel import refresh_job
from clusterra_proxy.requests.claim import (
    check_begin,
    check_clock,
    latest_begin,
    look,
    look_thoroughly,
    preparing,
    settle,
    unclaimed,
)
from clusterra_proxy.requests.job_variables import add_job_variables, component_variables, tres_per_task
from clusterra_proxy.requests.output_path import with_user_name
from clusterra_proxy.requests.sbatch_fields import sbatch_fields
from clusterra_proxy.requests.translation import submit_directory, translate_all, working_directory
from clusterra_proxy.slurmrestd.answers import SubmitAnswer
from clusterra_proxy.slurmrestd.error_codes import ADMISSION_ERRORS, CONNECTION_ERROR
from clusterra_proxy.slurmrestd.errors import (
    Conflict,
    NotFound,
    NotSent,
    NotUnderstood,
    OutcomeUnknown,
    Rejected,
    SlurmFailed,
    Unavailable,
)
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.slurmrestd.tokens import SHELL

MAX_WARNINGS = 10
MAX_WARNING_CHARACTERS = 500
"""Bounds of what Slurm warned about: the answer is stored with its key."""
PLACEHOLDER_WAIT_SECONDS = 10.0
"""How long a submit waits for missing placeholders. Creating all of them takes about 3 s."""

_NO_WORKER_YET_WARNINGS = ("Required node not available", "Requested partition configuration not available now")
"""Slurm's warnings when no worker exists yet. They are left out of the reply, because that is normal here."""
_HELD_WARNING = "Job is in held state"
"""Slurm's warning about a job that the request wants held."""


async def submit(cluster: Cluster, request: Submit) -> Submitted:
    """Submit a job as its user. Raises the errors of `clusterra_proxy.slurmrestd.errors`.

    Invalid names the line that sbatch would reject. Rejected names the limit that no worker could meet.
    """
    try:
        if request.idempotency_key is None:
            return await _submit(cluster, request, latest_begin())
        return await _submit_once(cluster, request, request.idempotency_key)
    except OutcomeUnknown:
        raise
    except SlurmFailed as failed:
        failed.error = failed.error.model_copy(update={"effect": "none"})
        raise


async def _submit_once(cluster: Cluster, request: Submit, key: str) -> Submitted:
    claim, user = request.claim or unclaimed(), request.user
    check_clock(claim, now())
    if claim.begin_by is None:
        if found := await look(cluster, user, key, claim.claimed_at):
            return found
        raise NotFound("Slurm has no job of this Idempotency-Key yet")
    check_begin(claim.begin_by, now())
    with cluster.submitting.alone(user.uid, key):
        if not claim.first:
            find = look_thoroughly if request.claim is None else settle
            async with preparing(claim.begin_by):
                found = await find(cluster, user, key, claim.claimed_at)
            if found:
                return found
        return await _submit(cluster, request, claim.begin_by)


async def _submit(cluster: Cluster, request: Submit, begin_by: datetime) -> Submitted:
    if cluster.binding.deleting:
        raise Conflict("this cluster is being deleted and takes no jobs", hint="submit to another cluster")
    async with preparing(begin_by):
        token = await cluster.user_token(request.user)
        applied = await translate_all(cluster, request)
        await check_account(cluster, request.user, applied[0].job.account or "")
    descriptions = describe_jobs(cluster, request, applied)
    try:
        answer = await _send(cluster, token, request, descriptions, begin_by)
    except Rejected as error:
        if error.error.code not in ADMISSION_ERRORS:
            raise
        async with preparing(begin_by):
            await _await_placeholders(cluster, error)
        answer = await _send(cluster, token, request, descriptions, begin_by)
    accepted_at = now()
    job_id = str(answer.job_id)
    cluster.follow_own_change(refresh_job(cluster, job_id))
    # slurmrestd ignores what it does not know, and says so in an error beside the job.
    warnings = itertools.chain(
        *(each.warnings for each in applied),
        (error.description for error in answer.errors),
        (warning.description for warning in answer.warnings),
    )
    held = any(each.get("hold") for each in descriptions)
    expected = (*_NO_WORKER_YET_WARNINGS, _HELD_WARNING) if held else _NO_WORKER_YET_WARNINGS
    shown = (text for text in warnings if not any(known in text for known in expected))
    return Submitted(
        job_id=job_id,
        accepted_at=accepted_at,
        warnings=tuple(text[:MAX_WARNING_CHARACTERS] for text in itertools.islice(shown, MAX_WARNINGS)),
    )


async def _send(
    cluster: Cluster, token: str, request: Submit, descriptions: list[dict[str, Any]], begin_by: datetime
) -> SubmitAnswer:
    """Submit to slurmrestd. Raises OutcomeUnknown when there may be a job nevertheless."""
    async with AsyncExitStack() as turn:
        async with preparing(begin_by):
            await cluster.slurmctld.version(token)
            await turn.enter_async_context(cluster.submitting.turn(request.user.uid))
        check_begin(begin_by, now())
        try:
            answer = await cluster.slurmctld.submit(token, request.script, *descriptions)
        except Unavailable as error:
            if isinstance(error, NotSent | NotUnderstood) or error.error.code == CONNECTION_ERROR:
                raise
            raise OutcomeUnknown(
                f"nobody knows yet whether Slurm accepted the job: {error.error.detail}", code=error.error.code
            ) from error
        if not answer.job_id:
            raise OutcomeUnknown("nobody knows yet whether Slurm accepted the job: its answer names none")
        return answer


def describe_jobs(cluster: Cluster, request: Submit, applied: Sequence[Applied]) -> list[dict[str, Any]]:
    """Return the descriptions that are sent to slurmrestd: of the job, or of each component of a heterogeneous one.

    The key stands in the first one's comment alone: the first one is the job of the key.
    """
    asked = (request.job, *(each.job for each in request.components))
    described = [_describe_job(cluster, request, job, each) for job, each in zip(asked, applied, strict=True)]
    if len(described) > 1:
        # The script runs in the first component, and srun starts commands in the others by these variables.
        described[0]["environment"] += component_variables(applied)
    described[0]["comment"] = _comment(request, request.idempotency_key or "")
    return described


def _describe_job(cluster: Cluster, request: Submit, asked: JobDescription, applied: Applied) -> dict[str, Any]:
    """Describe a job, or a component."""
    shared, job = cluster.binding.shared_path, applied.job
    description = sbatch_fields(applied)
    description["current_working_directory"] = working_directory(cluster, request.user, asked, job)
    description.setdefault("standard_output", f"{shared}/job_{'%A_%a' if job.array else '%j'}.out")
    for name in ("standard_input", "standard_output", "standard_error"):
        if name in description:
            description[name] = with_user_name(description[name], request.user.name)
    if request.kill_on_invalid_dependency:
        description |= with_flags(description, {"flags": ("KILL_INVALID_DEPENDENCY",)})
    if job.tres_per_task:
        # Slurm takes the variable SLURM_TRES_PER_TASK from this field.
        description["tres_per_task"] = tres_per_task(job)
    host = urlsplit(cluster.binding.slurmrestd_url).hostname or ""
    environment = add_job_variables(
        job.environment,
        applied,
        directory=submit_directory(cluster, request.user, asked),
        host=host,
        umask=cluster.binding.umask,
        component=bool(request.components),
    )
    description["environment"] = [*environment, *_default_environment(job.environment, request.user, shared)]
    description["comment"] = _comment(request)
    return description


def _comment(request: Submit, key: str = "") -> str:
    return str(
        Comment(
            user=request.user.name,
            uid=str(request.user.uid),
            user_email=request.email,
            key=key,
            trace=trace.current() or "",
            template=request.template,
        )
    )


def _default_environment(environment: tuple[str, ...], user: SlurmUser, shared: str) -> list[str]:
    """Return the missing login variables: the job's `/etc/passwd` has no account from which Slurm could set them."""
    defaults = (
        f"HOME={user.home_in(shared)}",
        f"USER={user.name}",
        f"LOGNAME={user.name}",
        f"SHELL={SHELL}",
        DEFAULT_PATH,
    )
    given = {item.partition("=")[0] for item in environment}
    return [item for item in defaults if item.partition("=")[0] not in given]


async def _await_placeholders(cluster: Cluster, rejected: Rejected) -> None:
    """Wait for missing placeholders, without which Slurm rejects jobs that it would otherwise admit.

    Raises Slurm's rejection when no placeholder is missing, and Unavailable when they are not restored in time.
    """
    if await cluster.placeholders.intact():
        error = rejected.error
        raise Rejected(
            error.detail, hint=f"{error.hint}; {job_limits.describe_largest_shape(cluster.binding)}", code=error.code
        ) from rejected
    if not await cluster.placeholders.wait_until_intact(PLACEHOLDER_WAIT_SECONDS):
        raise Unavailable(
            "the cluster's Slurm does not admit jobs without workers yet",
            hint="try again in a moment; an operator finds the reason in the proxy's log",
        ) from rejected
