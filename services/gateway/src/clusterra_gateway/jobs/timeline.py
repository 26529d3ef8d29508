"""The way of a job from its submit to its end: `GET /v1/clusters/{cluster_id}/jobs/{job_id}/timeline`.

`why` tells of the last decision, from the scaler that made it. What came before, and of what has ended, the archive of
events knows: the decisions that named the job, and the starts and registrations of its workers.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_contracts.rpc.visibility import may_see
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import HistoryRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import JOB_ID, job_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.stages import (
    SECOND,
    JobHistory,
    Run,
    Stage,
    decision_stages,
    decisions_known,
    in_order,
    worker_stages,
)

TIMELINE = f"{CLUSTER}/jobs/{{job_id}}/timeline"
MAX_JOB_EVENTS = 200
"""How many events about the job itself are read: the newest ones."""
MAX_DECISION_EVENTS = 2_000
"""How many decisions since its submit are looked at: the first ones."""
DECISIONS_OF_PAGE = 100
"""Each may name hundreds of jobs: 500 of these take the event loop 0.4 s to parse, 100 some 50 ms."""
MAX_NODE_EVENTS = 40
"""How many starts and registrations of each of its workers are read: the last ones before its run."""
WORKERS_AT_A_TIME = 5

api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class Timeline(ResponseBody):
    """The stages of a job by time: `submitted`, `decided`, `worker_started`, `registered`, `running`, `ended`.

    A worker that was there before has started before the submit. A job that was requeued has several runs. `complete`
    is false where the archive could not be read, or has more events than are read.
    """

    job_id: JobId
    as_of: Moment
    complete: bool
    stages: tuple[Stage, ...]


class Timelines:
    """The handler of timelines."""

    def __init__(self, slurm: SlurmRequests, archive: HistoryRequests) -> None:
        self._slurm = slurm
        self._archive = archive

    @api.get("jobs_timeline", TIMELINE, result=Timeline)
    async def timeline(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the stages of a job from its submit to its end, with the decisions that bought workers for it.

        At most 20 decisions and 20 workers are told, and at most 2,000 decisions are looked at. Of an array, ask for
        its tasks: its own timeline has its submit and its decisions. What a decision names of other jobs is in its
        `reason`, as in the answer to `why`.
        """
        at, job = now(), job_id(request)
        history, all_of_job = await self._history(ref, caller.viewer, job)
        # Decisions and workers tell of other people's jobs. Only what tells of this one is passed on.
        asked = ReadHistory(
            kinds=("scale.decided",),
            after=history.began_at,
            before=history.decided_before(at),
            limit=DECISIONS_OF_PAGE,
        )
        known = partial(decisions_known, history)
        decisions, all_decisions = await self._read(ref, asked, MAX_DECISION_EVENTS, known)
        slots = asyncio.Semaphore(WORKERS_AT_A_TIME)

        async def of_worker(run: Run, node: str) -> tuple[list[Event], bool]:
            kinds, before = ("worker.started", "node.registered"), run.started_at + SECOND
            asked = ReadHistory(kinds=kinds, subject=node, before=before, newest_first=True, limit=MAX_NODE_EVENTS)
            async with slots:
                return await self._read(ref, asked, 1)

        workers = history.workers()
        of_workers = await asyncio.gather(*(of_worker(run, node) for run, node in workers))
        stages = [
            *history.stages(),
            *decision_stages(history, decisions, complete=all_decisions),
            *(
                stage
                for (run, node), (events, _) in zip(workers, of_workers, strict=True)
                for stage in worker_stages(run, node, events)
            ),
        ]
        # Of the decisions those that are told are enough, and of a worker the newest events.
        complete = all_of_job and all_decisions and all(events or whole for events, whole in of_workers)
        return json_response(Timeline(job_id=job, as_of=at, complete=complete, stages=in_order(stages)))

    async def _history(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> tuple[JobHistory, bool]:
        """What is known of a job that the viewer may see, and whether all its events were read. Raises RpcFailed."""
        found: list[Event] = []
        complete = True
        for subject in dict.fromkeys((job_id, job_id.partition("_")[0])):
            kinds = ("job.*",) if subject == job_id else ("job.submitted",)
            asked = ReadHistory(viewer=viewer, kinds=kinds, subject=subject, newest_first=True, limit=MAX_JOB_EVENTS)
            events, all_of_them = await self._read(ref, asked, MAX_JOB_EVENTS)
            found += [event for event in events if may_see(viewer, event.data)]
            complete = complete and all_of_them
        job: Job | None = None
        try:
            job = await self._slurm.job(ref, viewer, job_id)
        except RpcFailed as failed:
            told = JobHistory.of(job_id, None, found)
            if failed.error.kind not in ("not_found", "unavailable") or not told.known:
                raise
        return JobHistory.of(job_id, job, found), complete

    async def _read(
        self,
        ref: ClusterRef,
        asked: ReadHistory,
        most: int,
        enough: Callable[[Sequence[Event]], bool] = lambda _found: False,
    ) -> tuple[list[Event], bool]:
        """Some events, and whether they are all, or enough; none while the archive is away."""
        try:
            return await self._archive.events(ref, asked, most=most, enough=enough)
        except RpcFailed as failed:
            if failed.error.kind != "unavailable":
                raise
            return [], False
