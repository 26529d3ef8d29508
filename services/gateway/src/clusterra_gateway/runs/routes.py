"""The routes of runs: start, list, read, cancel, resume."""

import asyncio
import hashlib
import secrets
from contextlib import suppress
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.page import InvalidCursor
from pydantic import Field

from clusterra_gateway.http.errors import Conflict, Forbidden, InvalidRequest, KeyReused, NotFound, Unavailable
from clusterra_gateway.http.parameters import Parameter, Query, body, path_id, query
from clusterra_gateway.http.responses import json_response
from clusterra_gateway.http.route import Named, Route
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED, idempotency_key
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.private_route import CLUSTER, CLUSTER_ID, ClusterRoute
from clusterra_gateway.jobs.submission import HINTS
from clusterra_gateway.runs import transitions
from clusterra_gateway.runs.advance import RunWork
from clusterra_gateway.runs.models import BOUNDS, RunList, RunRequest, RunView
from clusterra_gateway.runs.run import Run
from clusterra_gateway.runs.run_records import RunRecords

log = structlog.get_logger()

RUNS = f"{CLUSTER}/runs"
RUN_ID = Parameter("run_id", "path", "^[0-9a-f]{32}$")
RUN = f"{RUNS}/{{run_id}}"

MAX_RUNS = 1000
"""How many runs of one member are kept on a cluster; each may hold megabytes."""
ADVANCE_SECONDS = 30.0
"""A request waits so long for the submits of its run. The rest is submitted afterwards."""


class RunsQuery(Query):
    """Which runs to list."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: str | None = None


class Runs:
    """The handlers of runs."""

    def __init__(self, records: RunRecords, work: RunWork) -> None:
        self._records = records
        self._work = work

    async def start(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Starts a run: jobs that start after each other, each once the steps it depends on have completed.

        Without `depends_on`, a step depends on the one before it. When a step fails, the steps that depend on it are
        cancelled. The run goes on without the client. Its scripts and environments are kept for 30 days: put no
        secrets into them. Sent again with the same Idempotency-Key and body, it starts no second run.
        """
        wanted = await body(request, RunRequest, HINTS, BOUNDS)
        steps, work = wanted.planned()
        key = idempotency_key(request)
        run_id = secrets.token_hex(16) if key is None else _run_id(ref, caller.member.id, key)
        run = Run(
            id=run_id,
            name=wanted.run_name,
            member=caller.member.id,
            user=caller.member.slurm_user,
            created_at=now(),
            digest=wanted.digest(),
            steps=steps,
        )
        known = await self._records.read(ref, run_id)
        if known is None:
            if await self._records.count(ref, caller.member.id, MAX_RUNS) >= MAX_RUNS:
                raise Conflict(
                    f"there are {MAX_RUNS} runs of yours, the most that are kept", hint="a run is kept for 30 days"
                )
            if not await self._records.create(ref, run, work):
                known = await self._records.read(ref, run_id)
                if known is None:
                    raise Unavailable("the run could not be stored", hint="send the request again")
        if known is not None and known.run.digest != run.digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new run"
            )
        log.info("run_started", run_id=run_id, steps=len(steps), repeated=known is not None)
        shown = await self._advanced(ref, run_id)
        return json_response(
            RunView.of(shown or run),
            status=201,
            location=f"/v1/clusters/{ref.cluster}/runs/{run_id}",
            headers={} if known is None else {REPLAYED: "true"},
        )

    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the caller's runs, the newest first. Who sees everybody's jobs sees everybody's runs.

        The states are those that were last read. Read one run to have its present ones.
        """
        wanted = query(request, RunsQuery)
        member = None if caller.viewer.only_uid is None else caller.member.id
        try:
            runs, cursor = await self._records.list(ref, member, limit=wanted.limit, cursor=wanted.cursor)
        except InvalidCursor as error:
            raise InvalidRequest(str(error), hint="leave `cursor` out to begin with the newest run") from None
        return json_response(RunList(runs=tuple(RunView.of(run) for run in runs), cursor=cursor))

    async def get(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a run with the present states of its steps."""
        run = await self._visible(request, caller, ref)
        return json_response(RunView.of(await self._work.refreshed(ref, run)))

    async def cancel(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Cancels a run: no further step is submitted, and the jobs of the others are cancelled.

        Steps that have completed stay completed. Repeating the request is harmless.
        """
        run = await self._visible(request, caller, ref)
        if not (caller.viewer.admin or run.member == caller.member.id):
            raise Forbidden("this run belongs to another user", hint="its owner or an admin can cancel it")
        await self._work.refreshed(ref, run)
        return json_response(RunView.of(await self._changed(ref, run, transitions.cancelled)), status=202)

    async def resume(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Tries the steps of one's own run again that did not complete. Steps that have completed are not repeated."""
        run = await self._visible(request, caller, ref)
        if run.member != caller.member.id:
            raise Forbidden("only its owner can resume a run", hint="its jobs run as the person who started it")
        await self._work.refreshed(ref, run)
        at = now()
        try:
            return json_response(
                RunView.of(await self._changed(ref, run, lambda current: transitions.resumed(current, at))), status=202
            )
        except transitions.NotResumable as error:
            raise Conflict(f"this run cannot be resumed: {error}", hint="read the run to see its steps") from None

    async def _visible(self, request: web.Request, caller: Caller, ref: ClusterRef) -> Run:
        stored = await self._records.read(ref, path_id(request, RUN_ID))
        if stored is None or not (caller.viewer.only_uid is None or stored.run.member == caller.member.id):
            raise NotFound("there is no such run", hint=f"GET /v1/clusters/{ref.cluster}/runs lists your runs")
        return stored.run

    async def _changed(self, ref: ClusterRef, run: Run, change: transitions.Change) -> Run:
        stored = await self._records.change(ref, run.id, change)
        return await self._advanced(ref, run.id) or (stored.run if stored is not None else run)

    async def _advanced(self, ref: ClusterRef, run_id: str) -> Run | None:
        """The run after it was gone on with, for a while. What is left is done by the sweep."""
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(ADVANCE_SECONDS):
                return await self._work.advance(ref, run_id)
        stored = await self._records.read(ref, run_id)
        return stored.run if stored is not None else None


def _run_id(ref: ClusterRef, member: str, key: str) -> str:
    return hashlib.sha256(f"{ref.key}#{member}#{key}".encode()).hexdigest()[:32]


def routes(access: Access, records: RunRecords, work: RunWork) -> tuple[Route, ...]:
    """All routes of this room."""
    runs = Runs(records, work)
    of_cluster, of_run = (CLUSTER_ID,), (CLUSTER_ID, RUN_ID)
    return (
        ClusterRoute(
            "runs_start",
            "POST",
            RUNS,
            runs.start,
            access=access,
            scope="jobs:write",
            role="member",
            status=201,
            parameters=(*of_cluster, IDEMPOTENCY_KEY),
            body=RunRequest,
            result=RunView,
            names=(Named(RUN, "/run_id"),),
        ),
        ClusterRoute(
            "runs_list",
            "GET",
            RUNS,
            runs.list,
            access=access,
            scope="jobs:read",
            parameters=of_cluster,
            query=RunsQuery,
            result=RunList,
            names=(Named(RUN, "/runs/0/run_id"),),
        ),
        ClusterRoute(
            "runs_get", "GET", RUN, runs.get, access=access, scope="jobs:read", parameters=of_run, result=RunView
        ),
        ClusterRoute(
            "runs_cancel",
            "DELETE",
            RUN,
            runs.cancel,
            access=access,
            scope="jobs:write",
            role="member",
            status=202,
            parameters=of_run,
            result=RunView,
        ),
        ClusterRoute(
            "runs_resume",
            "POST",
            f"{RUN}/resume",
            runs.resume,
            access=access,
            scope="jobs:write",
            role="member",
            status=202,
            parameters=of_run,
            result=RunView,
        ),
    )
