"""The route that cancels the jobs of a filter."""

import asyncio
from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_contracts.job_states import LIVE
from clusterra_contracts.rpc.job_search import is_found
from clusterra_contracts.rpc.slurm import Job, ListJobs
from clusterra_contracts.rpc.slurm_jobs import CancelTasks, JobSelection
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import Field, StrictBool, StringConstraints, TypeAdapter, ValidationError

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import Rejected
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, body
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.filters import Search

MAX_JOBS = 1000
"""The most jobs of one person among which a filter looks."""
MAX_CANCELS = 200
AT_A_TIME = 4
"""Concurrent cancels of one request. The limit keeps them from delaying those of others."""
CANCEL_SECONDS = 40.0
"""After this time no further job is cancelled: HTTP clients wait 60 s for the answer."""

_SELECTION: TypeAdapter[str] = TypeAdapter(JobSelection)
_Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Outcome = Literal["cancelled", "would_cancel", "failed", "not_tried"]


api = cluster_routes(changes=Needs("jobs:write", "member"))


class JobFilter(Body):
    """The jobs to cancel: those that match every filter. Jobs that have ended never match."""

    state: tuple[Literal["PENDING", "RUNNING", "SUSPENDED"], ...] | None = None
    name: _Text | None = None
    search: Search | None = None
    """A part of the name, in upper or lower case; or the id of the job or of its array."""
    partition: _Text | None = None
    array: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}$")] | None = None
    """The tasks of this array."""
    user: _Text | None = None
    """Whose jobs; the caller's own without it. Only admins see those of others."""
    limit: Annotated[int, Field(ge=1, le=MAX_CANCELS), NotBoolean] = 100
    dry_run: StrictBool = False
    """Whether to tell only which jobs would be cancelled."""


class CancelledJob(ResponseBody):
    """What became of one job. An array's waiting tasks are one job here."""

    job_id: JobId
    name: str
    state: str
    """Its state before."""
    array_tasks: str
    """Of an array, the waiting tasks that are meant."""
    outcome: Outcome
    detail: str = ""
    """Why it failed."""


class CancelledJobs(ResponseBody):
    """The jobs of the filter, the latest submitted first, at most `limit` of `total`."""

    jobs: tuple[CancelledJob, ...]
    total: int


class CancelMany:
    """The handler."""

    def __init__(self, slurm: SlurmRequests, once: AnswerOnce) -> None:
        self._slurm = slurm
        self._once = once

    @api.post(
        "jobs_cancel_many",
        f"{CLUSTER}/jobs/cancel",
        parameters=(IDEMPOTENCY_KEY,),
        body=JobFilter,
        result=CancelledJobs,
    )
    async def cancel(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels the jobs of a filter, and names each with its outcome; with `dry_run` it cancels none.

        At most `limit` jobs are cancelled: send it again while `total` is larger. A job that cannot be cancelled
        hinders no other. The waiting tasks of an array are cancelled without those that run, unless these match too.

        With an Idempotency-Key that was sent before, the answer is the first one: nothing more is cancelled.
        """
        wanted = await body(request, JobFilter)
        owner = f"{ref.key}#{caller.member.id}"
        return await self._once.answer(
            request, owner, wanted, partial(self._cancel_all, caller, ref, wanted), status=200
        )

    async def _cancel_all(self, caller: Caller, ref: ClusterRef, wanted: JobFilter) -> CancelledJobs:
        found = await self._find(caller, ref, wanted)
        chosen = found[: wanted.limit]
        if wanted.dry_run:
            outcomes = [_told(job, "would_cancel") for job in chosen]
        else:
            turns = asyncio.Semaphore(AT_A_TIME)
            deadline = asyncio.get_running_loop().time() + CANCEL_SECONDS
            outcomes = await asyncio.gather(*(self._cancel(caller, ref, job, turns, deadline) for job in chosen))
        return CancelledJobs(jobs=tuple(outcomes), total=len(found))

    async def _find(self, caller: Caller, ref: ClusterRef, wanted: JobFilter) -> list[Job]:
        page = await self._slurm.jobs(
            ref,
            ListJobs(
                viewer=caller.viewer,
                user=wanted.user or caller.slurm_user.name,
                states=wanted.state or tuple(sorted(LIVE)),
                name=wanted.name,
                search=wanted.search,
                partition=wanted.partition,
                limit=MAX_JOBS,
            ),
        )
        if page.total > MAX_JOBS:
            raise Rejected(f"{page.total} jobs match, which is more than {MAX_JOBS}", hint="narrow it by name or state")
        # A proxy of an earlier release does not search, or filter by partition.
        return [
            job
            for job in page.jobs
            if (wanted.partition is None or job.partition == wanted.partition)
            and (wanted.search is None or is_found(wanted.search, job.job_id, job.name))
            and (wanted.array is None or job.job_id.partition("_")[0] == wanted.array)
            and (wanted.array is None or "_" in job.job_id or job.array_tasks)
        ]

    async def _cancel(
        self, caller: Caller, ref: ClusterRef, job: Job, turns: asyncio.Semaphore, deadline: float
    ) -> CancelledJob:
        async with turns:
            if asyncio.get_running_loop().time() > deadline:
                return _told(job, "not_tried")
            try:
                if job.array_tasks:
                    await self._slurm.change(ref, caller.viewer, _waiting_tasks(job), CancelTasks())
                else:
                    await self._slurm.cancel(ref, caller.viewer, job.job_id)
            except RpcFailed as failed:
                return _told(job, "failed", failed.error.detail)
            except ValidationError:
                return _told(job, "failed", f"Slurm does not name all its waiting tasks: cancel {job.job_id} itself")
        return _told(job, "cancelled")


def _waiting_tasks(job: Job) -> str:
    """Return the selection of an array's waiting tasks. Raises ValidationError for a list that Slurm shortened."""
    return _SELECTION.validate_python(f"{job.job_id}_[{job.array_tasks.partition('%')[0]}]")


def _told(job: Job, outcome: Outcome, detail: str = "") -> CancelledJob:
    return CancelledJob(
        job_id=job.job_id,
        name=job.name,
        state=job.state,
        array_tasks=job.array_tasks,
        outcome=outcome,
        detail=detail,
    )
