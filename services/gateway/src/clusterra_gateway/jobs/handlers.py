"""The routes of a cluster's jobs: submit, list, read, cancel."""

import asyncio

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm_jobs import CancelTasks

from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import (
    JOB_ID,
    JOBS,
    Query,
    job_id,
    query,
    selected_jobs,
)
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED, idempotency_key
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.costs import JobPage, JobWithCost, page_with_costs, with_cost
from clusterra_gateway.jobs.estimates import Estimates, JobEstimate
from clusterra_gateway.jobs.filters import CountedJobs, CountsQuery, JobsQuery, no_search_yet
from clusterra_gateway.staging.staging_records import JobStagings
from clusterra_gateway.submission.models import AnyScript, AnySubmission, Submission, TemplateSubmission
from clusterra_gateway.submission.reading import read_any_submission
from clusterra_gateway.submits.desk import SubmitDesk, SubmittedJob
from clusterra_gateway.templates.launches import Launches

ALL_JOBS = f"{CLUSTER}/jobs"
JOB = f"{ALL_JOBS}/{{job_id}}"

api = cluster_routes(JOB_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))
of_selection = cluster_routes(JOBS, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


def _with_files(rendered: Submission, wanted: TemplateSubmission) -> Submission:
    """The job of a template with the files that the request wants staged, unless the template stages its own."""
    if not (wanted.stage_in or wanted.stage_out):
        return rendered
    if rendered.staged:
        raise InvalidRequest(
            f"the template {wanted.template_id} stages files of its own",
            hint="leave `stage_in` and `stage_out` out, and give the template its inputs",
        )
    return rendered.model_copy(update={"stage_in": wanted.stage_in, "stage_out": wanted.stage_out})


class SubmitQuery(Query):
    """How a job is submitted."""

    dry_run: bool = False
    """Estimates the job, and submits nothing."""


class Jobs:
    """The handlers of jobs."""

    def __init__(
        self, bus: GatewayBus, desk: SubmitDesk, estimates: Estimates, launches: Launches, stagings: JobStagings
    ) -> None:
        self._slurm = bus.slurm
        self._launches = launches
        self._stagings = stagings
        self._feed = bus.feed
        self._desk = desk
        self._estimates = estimates
        self._ledger = bus.ledger

    @api.post(
        "jobs_submit",
        f"{ALL_JOBS}/submit",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        query=SubmitQuery,
        body=AnySubmission,
        result=SubmittedJob,
        names=(Named(JOB, "/job_id"),),
        dry_result=JobEstimate,
    )
    async def submit(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Submits a job as the caller. Sent again with the same Idempotency-Key and body, it makes no second job.

        A key lives for 24 hours after the last request that tried to submit with it; it belongs to one person on one
        cluster. The answers to a request with a key that was sent before: 201 with the first answer and `repeated`;
        409 `in-flight` while the first request is carried out; 504 `outcome-unknown` while nobody knows whether Slurm
        accepted the job; 422 `key-reused` for another body. After 409 and 504, ask again with the same key after the
        seconds in `Retry-After`. After another error the key is free again.

        With a `template_id` in place of a script, the script is rendered from the template. A workflow is started with
        `POST /v1/launchables/{launchable_id}/submit`.

        With `stage_in` or `stage_out` the job is held until its working directory exists, with the files that are
        copied from the bucket. Those of `stage_out` are copied to the bucket when the job has ended.

        With `jobs` in place of `job`, its 2 to 16 entries are the components of one heterogeneous job: they start
        together, and the script runs in the first, whose id is the answer.

        With `dry_run=true` nothing is submitted, and no key is used: the answer is 200 with the estimate of
        `jobs/estimate`.
        """
        dry_run = query(request, SubmitQuery).dry_run
        wanted = await read_any_submission(request)
        submission: AnyScript
        if isinstance(wanted, TemplateSubmission):
            rendered = await self._launches.submission(caller, ref, wanted, idempotency_key(request))
            submission = _with_files(rendered, wanted)
        else:
            submission = wanted
        if dry_run:
            return json_response(await self._estimates.estimate(caller, ref, submission))
        submitted = await self._desk.submit(caller, ref, submission, idempotency_key(request), wanted.digest())
        return json_response(
            submitted,
            status=201,
            location=f"/v1/clusters/{ref.cluster}/jobs/{submitted.job_id}",
            headers={REPLAYED: "true"} if submitted.repeated else {},
        )

    @api.get("jobs_list", ALL_JOBS, query=JobsQuery, result=JobPage, names=(Named(JOB, "/jobs/0/job_id"),))
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the caller's jobs, by default the newest first. An admin sees everybody's jobs.

        Where the cluster's `visibility` is `tenant`, so does everybody.

        With `costs=true` the answer has the cost of each job until now. A cost is unknown where the ledger does not
        answer in time. An array task is a job of its own here; the pending tasks of an array cost nothing.

        `Event-Position` is the Last-Event-ID with which the stream of events tells everything after this list.
        """
        filters = query(request, JobsQuery)
        position = self._feed.position  # before the list is read, so that no event falls between the two
        page = await self._slurm.jobs(ref, filters.of(caller.viewer))
        if not filters.found(page):
            raise no_search_yet()
        listed = await page_with_costs(self._ledger, ref, caller.viewer, page, costs=filters.costs)
        return json_response(listed, headers=at_position(position))

    @api.get("jobs_count", f"{ALL_JOBS}/counts", query=CountsQuery, result=CountedJobs)
    async def count(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Counts the jobs that a list with the same filters has, by state, without reading them.

        `Event-Position` is as of the list: the stream of events tells what has changed since.
        """
        filters = query(request, CountsQuery)
        position = self._feed.position
        counts = await self._slurm.counts(ref, filters.of(caller.viewer))
        return json_response(CountedJobs.showing(counts), headers=at_position(position))

    @api.get("jobs_get", JOB, result=JobWithCost)
    async def get(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns one job, with what it cost so far, and how far the staging of its files is."""
        job = await self._slurm.job(ref, caller.viewer, job_id(request))
        viewed, staging = await asyncio.gather(
            with_cost(self._ledger, ref, caller.viewer, job),
            self._stagings.of_job(ref, job.job_id, age=now() - job.submitted_at),
        )
        if staging is not None and not caller.viewer.changes(job.uid):
            staging = staging.without_names()
        return json_response(viewed.model_copy(update={"staging": staging}))

    @of_selection.delete("jobs_cancel", JOB)
    async def cancel(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels a job, an array task, some tasks or a whole array."""
        jobs = selected_jobs(request)
        if "[" in jobs:
            await self._slurm.change(ref, caller.viewer, jobs, CancelTasks())
        else:
            await self._slurm.cancel(ref, caller.viewer, jobs)
        return no_content()
