"""A cluster's jobs: submit, read, explain, list, cancel."""

import hashlib
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from clusterra_contracts.job_states import JobState
from clusterra_contracts.rpc.slurm import JobDescription, ListJobs, Submit
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import BeforeValidator, Field, StringConstraints, TypeAdapter, ValidationError

from clusterra_gateway.context import gateway
from clusterra_gateway.http.errors import InvalidRequest, TooLarge
from clusterra_gateway.http.parameters import Body, CommaSeparated, Hints, Query, body, cluster, job_id, query
from clusterra_gateway.http.replies import reply
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.idempotency import Scope

log = structlog.get_logger()

MAX_SCRIPT_BYTES = 512 * 1024
MAX_SUBMISSION_BYTES = 768 * 1024
"""A submit must fit NATS' payload limit of 1 MiB, with room for what we add."""

IdempotencyKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
_KEY: TypeAdapter[str] = TypeAdapter(IdempotencyKey)

_OURS = "Clusterra sets it: a job runs as the person who submits it"
HINTS: Hints = {
    ("script",): 'the script is a text at the top level: {"script": "#!/bin/bash\\n...", "job": {...}}',
    ("job", "script"): "move `script` out of `job`, to the top level of the body",
    ("job", "nodes"): '`nodes` is a text: "1", or "2-4"',
    ("job", "environment"): '`environment` is required, and may be as small as ["PATH=/usr/bin:/bin"]',
    ("job", "user_id"): _OURS,
    ("job", "group_id"): _OURS,
    ("job", "comment"): "Clusterra keeps its own note in the comment",
}


class Submission(Body):
    """A job in slurmrestd's shape: the script beside the job, not inside of it."""

    script: Annotated[str, Field(min_length=1)]
    job: JobDescription


State = Annotated[JobState, BeforeValidator(lambda state: str(state).upper())]


class JobsQuery(Query):
    """Filters; those that are not given do not filter. Times are inclusive."""

    state: Annotated[tuple[State, ...] | None, CommaSeparated] = None
    user: str | None = None
    name: str | None = None
    submitted_after: Moment | None = None
    submitted_before: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None


async def submit(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Submit a job as the caller. With an Idempotency-Key, sending it again makes no second job."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    submission = await body(request, Submission, HINTS)
    canonical = submission.model_dump_json().encode()
    if len(submission.script.encode()) > MAX_SCRIPT_BYTES or len(canonical) > MAX_SUBMISSION_BYTES:
        raise TooLarge(
            f"the script is larger than {MAX_SCRIPT_BYTES // 1024} KiB, or all together than "
            f"{MAX_SUBMISSION_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared folder, and call them from the script",
        )
    key = _idempotency_key(request)
    message = Submit(
        user=caller.member.slurm_user,
        email=caller.member.email,
        script=submission.script,
        job=submission.job,
        idempotency_key=key,
    )
    if key is None:
        submitted = await parts.upstream.submit(ref, message)
    else:
        scope = Scope(ref, caller.member.id, key)
        digest = hashlib.sha256(canonical).hexdigest()
        known = await parts.idempotency.claim(scope, digest)
        if known is not None:
            submitted = known.model_copy(update={"repeated": True})
        else:
            try:
                submitted = await parts.upstream.submit(ref, message)
            except RpcFailed as failed:
                if failed.error.kind != "unavailable":  # then nobody knows whether there is a job
                    await parts.idempotency.release(scope, digest)
                raise
            await parts.idempotency.settle(scope, digest, submitted)
    log.info("job_submitted", tenant=ref.tenant, cluster=ref.cluster, user=caller.member.user, job=submitted.job_id)
    return reply(submitted, status=201, location=f"/v1/clusters/{ref.cluster}/jobs/{submitted.job_id}")


async def jobs(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The caller's jobs, newest first; an admin sees those of the whole tenant."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    wanted = query(request, JobsQuery)
    return reply(
        await parts.upstream.jobs(
            ref,
            ListJobs(
                viewer=caller.viewer,
                user=wanted.user,
                states=wanted.state,
                name=wanted.name,
                submitted_after=wanted.submitted_after,
                submitted_before=wanted.submitted_before,
                limit=wanted.limit,
                cursor=wanted.cursor,
            ),
        )
    )


async def job(request: web.Request, caller: Caller) -> web.StreamResponse:
    """One job."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    return reply(await parts.upstream.job(ref, caller.viewer, job_id(request)))


async def why(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Why a job waits, what was bought for it, when it is expected to start and what it costs per hour."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    return reply(await parts.upstream.why(ref, caller.viewer, job_id(request)))


async def cancel(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Cancel a job, an array task or a whole array."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    await parts.upstream.cancel(ref, caller.viewer, job_id(request))
    return web.Response(status=204)


def _idempotency_key(request: web.Request) -> str | None:
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return None
    try:
        return _KEY.validate_python(given.strip('"'))
    except ValidationError:
        raise InvalidRequest(
            "the Idempotency-Key is not usable", hint="8 to 64 letters, digits, - or _; a UUID will do"
        ) from None
