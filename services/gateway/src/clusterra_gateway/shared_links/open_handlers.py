"""The routes for whoever has a shared link: the job that it shows, and its output."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_contracts.rpc.slurm import Job
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import RANGE, query
from clusterra_gateway.jobs.costs import Cost, with_cost
from clusterra_gateway.jobs.explanations import Explanations
from clusterra_gateway.jobs.output.output import Output
from clusterra_gateway.jobs.output.whole import OutputQuery, WholeOutput
from clusterra_gateway.jobs.scripts import submitted_script
from clusterra_gateway.shared_links.link_route import link_routes
from clusterra_gateway.shared_links.opened_link import OpenedLink
from clusterra_gateway.shared_links.shown_job import SharedJob, SharedScript, ShownExplanation, explained_from_record

log = structlog.get_logger()

SHARED_JOB = "/v1/shared-job"

MOST_SCRIPTS = 500
"""How many scripts are kept. They never change, and each is a read of slurmdbd that anybody with the link may want."""
MOST_CHARACTERS = 65_536
"""The longest script that is kept."""

api = link_routes()


class SharedJobHandlers:
    """The handlers of shared links."""

    def __init__(
        self, slurm: SlurmRequests, ledger: LedgerRequests, explanations: Explanations, output: WholeOutput
    ) -> None:
        self._slurm = slurm
        self._ledger = ledger
        self._explanations = explanations
        self._output = output
        self._scripts = BoundedCache[tuple[ClusterRef, JobId, Moment], str](MOST_SCRIPTS)

    @api.get("shared_job_get", SHARED_JOB, result=SharedJob)
    async def get(self, _request: web.Request, link: OpenedLink) -> web.StreamResponse:
        """Returns the job that a shared link shows, as its owner sees it now.

        The token of the link is sent as a bearer token. No other token is taken here, and this one nowhere else. 404
        for a link that is wrong, has expired or was revoked, and where its owner may not see the job any more.
        """
        job = await self._job(link)
        cost = await self._cost(link, job) if link.shows("cost") else None
        why = await self._why(link, job) if link.shows("why") else None
        return json_response(
            SharedJob.showing(job, shows=link.record.shows, expires_at=link.record.valid_until, cost=cost, why=why)
        )

    @api.get(
        "shared_job_output",
        f"{SHARED_JOB}/output",
        ranges=True,
        parameters=(RANGE,),
        query=OutputQuery,
        result="text/plain",
    )
    async def output(self, request: web.Request, link: OpenedLink) -> web.StreamResponse:
        """Returns what the job of a shared link has written so far, byte for byte, as `jobs_output` does.

        404 also for a link that does not show the output.
        """
        wanted = query(request, OutputQuery)
        link.require("output")
        job = await self._job(link)
        output = Output(link.ref, link.viewer, job, wanted.stream, link.shared_path)
        try:
            output.check_path(job)
        except NotFound:
            # Its text has the path.
            raise NotFound(
                f"the {wanted.stream} of this job cannot be shown", hint="ask whoever gave you the link"
            ) from None
        return await self._output.answer(request, wanted, output)

    @api.get("shared_job_script", f"{SHARED_JOB}/script", result=SharedScript)
    async def script(self, _request: web.Request, link: OpenedLink) -> web.StreamResponse:
        """Returns the script that the job of a shared link was submitted with, as `jobs_script` does.

        404 also for a link that does not show the script, and where Slurm's accounting does not have it.
        """
        link.require("script")
        job = await self._job(link)
        # Slurm gives an id again; not for a job of the same time.
        of_job = link.ref, job.job_id, job.submitted_at
        script = self._scripts.get(of_job)
        if script is None:
            script = await self._script(link, job)
            if len(script) <= MOST_CHARACTERS:
                self._scripts.put(of_job, script)
        return json_response(SharedScript(job_id=job.job_id, script=script))

    async def _script(self, link: OpenedLink, job: Job) -> str:
        try:
            return await submitted_script(self._slurm, link.ref, link.viewer, job)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            raise NotFound("the cluster has no script of this job", hint="ask whoever gave you the link") from None

    async def _job(self, link: OpenedLink) -> Job:
        job = await self._slurm.job(link.ref, link.viewer, link.record.job_id)
        link.check(job)
        return job

    async def _cost(self, link: OpenedLink, job: Job) -> Cost | None:
        return (await with_cost(self._ledger, link.ref, link.viewer, job)).cost

    async def _why(self, link: OpenedLink, job: Job) -> ShownExplanation | None:
        if (ended := explained_from_record(job, now())) is not None:
            return ended
        try:
            told = await self._explanations.explained(link.ref, link.viewer, job.job_id)
        except RpcFailed as failed:
            log.info("shared_job_unexplained", kind=failed.error.kind)
            return None
        # One that has ended since the job was read names its files.
        return None if told.state == "ended" else ShownExplanation.of(told)
