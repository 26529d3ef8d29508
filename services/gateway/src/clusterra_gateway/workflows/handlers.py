"""The routes of workflows, which the API calls runs: start, list, read, cancel, resume."""

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.page import InvalidCursor
from pydantic import Field

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Parameter, Query, body, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED, idempotency_key
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.submission.reading import STEP_HINTS
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.models import BOUNDS, RunList, RunRequest, RunView, TemplateSteps
from clusterra_gateway.workflows.start import WorkflowStarts, run_id_of
from clusterra_gateway.workflows.workflow import Workflow
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

RUNS = f"{CLUSTER}/runs"
RUN_ID = Parameter("run_id", "path", "^[0-9a-f]{32}$")
RUN = f"{RUNS}/{{run_id}}"

api = cluster_routes(RUN_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


class RunsQuery(Query):
    """Which runs to list."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: str | None = None


@dataclass(frozen=True)
class Workflows:
    """The handlers of workflows."""

    records: WorkflowRecords
    controller: WorkflowController
    starts: WorkflowStarts
    templates: TemplateSteps
    feed: EventFeed

    @api.post(
        "runs_start",
        RUNS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=RunRequest,
        result=RunView,
        names=(Named(RUN, "/run_id"),),
    )
    async def start(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Starts a run: jobs that start after each other, each once the steps it depends on have completed.

        A step is a job with its script, or a template with its values. Without `depends_on`, a step depends on the one
        before it. When a step fails, the steps that depend on it are cancelled. The run goes on without the client.
        Its scripts and environments are kept for 30 days: put no secrets into them. Sent again with the same
        Idempotency-Key and body, it starts no second run.

        `stage_in` and `stage_out` of a step are those of `jobs/submit`. Its files have to be there when the run starts.
        """
        wanted = await body(request, RunRequest, STEP_HINTS, BOUNDS)
        run_id = run_id_of(ref, caller.member.id, idempotency_key(request))
        scripted = await wanted.scripted(caller, ref, self.templates, run_id)
        workflow, repeated = await self.starts.start(caller, ref, scripted, run_id, digest=wanted.digest())
        return json_response(
            RunView.of(workflow),
            status=201,
            location=f"/v1/clusters/{ref.cluster}/runs/{run_id}",
            headers={REPLAYED: "true"} if repeated else {},
        )

    @api.get("runs_list", RUNS, query=RunsQuery, result=RunList, names=(Named(RUN, "/runs/0/run_id"),))
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the caller's runs, the newest first. Who sees everybody's jobs sees everybody's runs.

        The states are the present ones; those of jobs that Slurm does not tell within 5 seconds are as last read.

        `Event-Position` is the Last-Event-ID with which the stream of events tells everything after this list.
        """
        position = self.feed.position
        wanted = query(request, RunsQuery)
        member = None if caller.sees_everybody else caller.member.id
        try:
            runs, cursor = await self.records.list(ref, member, limit=wanted.limit, cursor=wanted.cursor)
        except InvalidCursor as error:
            raise InvalidRequest(str(error), hint="leave `cursor` out to begin with the newest run") from None
        shown = await self.controller.all_refreshed(ref, runs, reader=caller.member.id)
        return json_response(RunList(runs=tuple(map(RunView.of, shown)), cursor=cursor), headers=at_position(position))

    @api.get("runs_get", RUN, result=RunView)
    async def get(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a run with the present states of its steps."""
        workflow = await self._visible(request, caller, ref)
        return json_response(RunView.of(await self.controller.refreshed(ref, workflow, reader=caller.member.id)))

    @api.delete("runs_cancel", RUN, status=202, result=RunView)
    async def cancel(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels a run: no further step is submitted, and the jobs of the others are cancelled.

        Steps that have completed stay completed. Repeating the request is harmless.
        """
        workflow = await self._visible(request, caller, ref)
        if not (caller.viewer.admin or workflow.member == caller.member.id):
            raise Forbidden("this run belongs to another user", hint="its owner or an admin can cancel it")
        await self.controller.refreshed(ref, workflow, reader=caller.member.id)
        return json_response(RunView.of(await self._changed(ref, workflow, transitions.cancelled)), status=202)

    @api.post("runs_resume", f"{RUN}/resume", status=202, result=RunView)
    async def resume(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Tries the steps of one's own run again that did not complete. Steps that have completed are not repeated."""
        workflow = await self._visible(request, caller, ref)
        if workflow.member != caller.member.id:
            raise Forbidden("only its owner can resume a run", hint="its jobs run as the person who started it")
        await self.controller.refreshed(ref, workflow, reader=caller.member.id)
        if await self.records.spec(ref, workflow.id, 0) is None:
            raise Conflict(
                "this run cannot be resumed: newer runs took the place of its scripts", hint="start a new run"
            )
        at = now()
        try:
            return json_response(
                RunView.of(await self._changed(ref, workflow, lambda current: transitions.resumed(current, at))),
                status=202,
            )
        except transitions.NotResumable as error:
            raise Conflict(f"this run cannot be resumed: {error}", hint="read the run to see its steps") from None

    async def _visible(self, request: web.Request, caller: Caller, ref: ClusterRef) -> Workflow:
        stored = await self.records.read(ref, path_id(request, RUN_ID))
        if stored is None or not (caller.sees_everybody or stored.workflow.member == caller.member.id):
            raise NotFound("there is no such run", hint=f"GET /v1/clusters/{ref.cluster}/runs lists your runs")
        return stored.workflow

    async def _changed(self, ref: ClusterRef, workflow: Workflow, change: transitions.Change) -> Workflow:
        stored = await self.records.change(ref, workflow.id, change)
        return await self.starts.advanced(ref, workflow.id) or (stored.workflow if stored is not None else workflow)
