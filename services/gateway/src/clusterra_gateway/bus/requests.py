"""The gateway's requests on the bus, one class for each service that answers. Every method raises RpcFailed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import Message
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, JobId, TenantRef, Wire
from clusterra_contracts.rpc.costs import (
    CostPage,
    JobCost,
    JobCosts,
    ReadCosts,
    ReadJobCost,
    ReadJobCosts,
    ReadRunCosts,
    ReadSpending,
    RunCosts,
    Spending,
    SpendingDimension,
)
from clusterra_contracts.rpc.deadlines import DEADLINES, REPEAT_READ_SECONDS
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.edge_folders import FileChunk, FolderPage, ListFolder, ReadFile
from clusterra_contracts.rpc.edge_staging import Stage, Staged
from clusterra_contracts.rpc.edge_streams import ReadSession, SessionJob, SessionReady
from clusterra_contracts.rpc.estimate import Estimate, EstimateJob, Prepare, Prepared
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory, ReadTenantHistory
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.simulate import SimulatePolicy, Simulation
from clusterra_contracts.rpc.slurm import (
    Cancel,
    CountJobs,
    FindKey,
    FoundKey,
    GetJob,
    Job,
    JobCounts,
    JobPage,
    ListJobs,
    ListWatched,
    Operation,
    Submit,
    Submitted,
    Viewer,
)
from clusterra_contracts.rpc.slurm_jobs import Action, ChangeJob
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_contracts.rpc.slurm_rest import ReadRest, RestPart
from clusterra_contracts.rpc.slurm_scripts import JobScript, ReadScript
from clusterra_contracts.rpc.slurm_steps import JobSteps, ReadSteps
from clusterra_contracts.rpc.usage import ReadUsage, Usage
from clusterra_contracts.rpc.why import ExplainJob, Explanation
from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import NotServed, RpcFailed, call

from clusterra_gateway.bus.repeated_reads import repeated

OutputStream = Literal["stdout", "stderr"]

USAGE_SECONDS = 1.0
"""Timeout for usage and for the cost of a job. A profile and a job are also useful without it."""

COSTS_SECONDS = 20.0
"""Timeout for a page of costs, for which the ledger may read a year."""

LIST_COSTS_SECONDS = 5.0
"""A list of jobs does not wait longer for its costs: it comes without them."""

HANDOVER_SECONDS = 2.0
"""How long a request to a cluster's Slurm waits for somebody who serves it. Nobody does for a moment while its binding
changes, as by a pause, or its last proxy is replaced."""

FOLDER_SECONDS = 50.0
"""Timeout for reads of the shared folder: a large folder of a slow file server takes its time."""

MAX_HISTORY_PAGES = 20
"""How many pages of the archive are read for one answer: a page may be short."""

ESTIMATE_SECONDS = 20.0
"""Timeout for an estimate or a simulation, which takes as long as one or two decisions of the scaler, after those in
flight."""


class _Requests:
    def __init__(self, client: Client) -> None:
        self._client = client


class SlurmRequests(_Requests):
    """Requests to the proxy of a cluster's Slurm. A read that has no answer is repeated, a change never is.

    What nobody serves was not sent. It is sent again for `HANDOVER_SECONDS`, also a change.
    """

    async def submit(self, ref: ClusterRef, submit: Submit) -> Submitted:
        """Submits a job."""
        return await self._call(ref, "submit", submit, Submitted)

    async def prepare(self, ref: ClusterRef, request: Prepare) -> Prepared:
        """Checks and translates a submission without making a job."""
        return await self._call(ref, "prepare", request, Prepared)

    async def job(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> Job:
        """One job. A job that the viewer may not see is `not_found`."""
        request = GetJob(viewer=viewer, job_id=job_id)
        read = partial(self._call, ref, "get", request, Job)
        return await repeated(read, partial(self._call_once, ref, "get-watched", request, Job), REPEAT_READ_SECONDS)

    async def jobs(self, ref: ClusterRef, request: ListJobs) -> JobPage:
        """A page of jobs."""
        read = partial(self._call, ref, "list", request, JobPage)
        again = partial(self._call_once, ref, "list-watched", ListWatched(request=request), JobPage)
        return await repeated(read, again, REPEAT_READ_SECONDS)

    async def counts(self, ref: ClusterRef, request: ListJobs) -> JobCounts:
        """How many jobs match the filters of a list, by state."""
        asked = CountJobs(request=request)
        read = partial(self._call, ref, "count", asked, JobCounts)
        return await repeated(
            read, partial(self._call_once, ref, "count-watched", asked, JobCounts), REPEAT_READ_SECONDS
        )

    async def steps(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> JobSteps:
        """The steps of all runs of a job. There are none of a job that the viewer may not see."""
        return await self._call(ref, "steps", ReadSteps(viewer=viewer, job_id=job_id), JobSteps)

    async def script(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> JobScript:
        """The script of a job. A job that the viewer may not see, or that Slurm keeps no script of, is `not_found`."""
        return await self._call(ref, "script", ReadScript(viewer=viewer, job_id=job_id), JobScript)

    async def block_submits(self, ref: ClusterRef, request: BlockSubmits) -> None:
        """Has Slurm refuse the jobs of deactivated users, and of users and accounts whose quota is used up."""
        await self._call(ref, "block-submits", request, Done)

    async def cancel(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> None:
        """Cancels a job."""
        request = Cancel(viewer=viewer, job_id=job_id)
        await self._call(ref, "cancel", request, Done)

    async def change(self, ref: ClusterRef, viewer: Viewer, jobs: str, change: Action) -> None:
        """Changes a job, an array or some of its tasks."""
        await self._call(ref, "change", ChangeJob(viewer=viewer, jobs=jobs, change=change), Done)

    async def find_key(self, ref: ClusterRef, request: FindKey) -> Submitted | None:
        """The job of an idempotency key, as the replica that watches the cluster finds it; None when there is none."""
        return (await self._call_once(ref, "find-key", request, FoundKey)).job

    async def rest(self, ref: ClusterRef, request: ReadRest) -> RestPart:
        """An answer of slurmrestd that is passed on."""
        return await self._call(ref, "rest", request, RestPart)

    async def rest_list(self, ref: ClusterRef, request: ReadRest) -> RestPart:
        """A part of a list of slurmrestd, from the replica that watches the cluster, so that Slurm lists once for all.

        While none watches, any replica answers.
        """
        try:
            return await self._call_once(ref, "rest-watched", request, RestPart)
        except RpcFailed as failed:
            if failed.error.kind != "unavailable" or failed.error.effect != "none":
                raise
        return await self.rest(ref, request)

    async def _call[T: Wire](self, ref: ClusterRef, operation: Operation, request: Message, result: type[T]) -> T:
        send = partial(self._call_once, ref, operation, request, result)
        return await retry(send, Backoff(0.05, 0.2), on=NotServed, seconds=HANDOVER_SECONDS)

    async def _call_once[T: Wire](self, ref: ClusterRef, operation: Operation, request: Message, result: type[T]) -> T:
        seconds = DEADLINES[operation].gateway
        return await call(self._client, subjects.slurm(ref, operation), request, result, timeout_seconds=seconds)


class EdgeRequests:
    """Requests to a cluster's edge-agent."""

    def __init__(self, client: Client, timeout_seconds: float) -> None:
        self._client = client
        self._seconds = timeout_seconds

    async def output(self, ref: ClusterRef, part: ReadLog) -> LogChunk:
        """A part of a job's output. `not_found` before the job has written anything.

        At the end of the output, the edge waits up to its `wait_seconds` for more.
        """
        timeout = self._seconds + part.wait_seconds
        return await call(self._client, subjects.edge(ref, "log"), part, LogChunk, timeout_seconds=timeout)

    async def session(self, ref: ClusterRef, session: SessionJob) -> SessionReady:
        """How a session is used. `not_found` before its server takes connections."""
        request = ReadSession(session=session)
        return await call(
            self._client, subjects.edge(ref, "session"), request, SessionReady, timeout_seconds=self._seconds
        )

    async def folder(self, ref: ClusterRef, request: ListFolder) -> FolderPage:
        """A page of a folder of the shared folder, as its user may see it."""
        subject = subjects.edge(ref, "folder")
        return await call(self._client, subject, request, FolderPage, timeout_seconds=FOLDER_SECONDS)

    async def file(self, ref: ClusterRef, request: ReadFile) -> FileChunk:
        """A part of a file of the shared folder, as its user may read it."""
        return await call(self._client, subjects.edge(ref, "file"), request, FileChunk, timeout_seconds=FOLDER_SECONDS)

    async def stage(self, ref: ClusterRef, request: Stage) -> Staged:
        """The progress of a staging task. The edge waits up to its `wait_seconds` for the end."""
        timeout = self._seconds + request.wait_seconds
        return await call(self._client, subjects.edge(ref, "stage"), request, Staged, timeout_seconds=timeout)


class ScalerRequests(_Requests):
    """Requests to the scaler."""

    async def why(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> Explanation:
        """Why a job waits or what it runs on. A job that the viewer may not see is `not_found`."""
        request = ExplainJob(viewer=viewer, job_id=job_id)
        return await call(self._client, subjects.scaler(ref, "why"), request, Explanation)

    async def estimate(self, ref: ClusterRef, prepared: Prepared) -> Estimate:
        """What a job would cost, and when it would start."""
        request = EstimateJob(job=prepared.job, tasks=prepared.tasks, components=prepared.components)
        subject = subjects.scaler(ref, "estimate")
        return await call(self._client, subject, request, Estimate, timeout_seconds=ESTIMATE_SECONDS)

    async def simulate(self, ref: ClusterRef, request: SimulatePolicy) -> Simulation:
        """What the planner decides under the present policy, and under another one."""
        subject = subjects.scaler(ref, "simulate")
        return await call(self._client, subject, request, Simulation, timeout_seconds=ESTIMATE_SECONDS)


class LedgerRequests(_Requests):
    """Requests to the ledger of costs."""

    async def usage(self, tenant: TenantRef, uid: int, mapped: Mapping[str, int]) -> Usage:
        """What a person's jobs cost now and this month. `mapped` is their uid by each identity source of the tenant."""
        request = ReadUsage(uid=uid, mapped=dict(mapped))
        return await call(self._client, subjects.usage(tenant), request, Usage, timeout_seconds=USAGE_SECONDS)

    async def costs(self, ref: ClusterRef, request: ReadCosts) -> CostPage:
        """A page of what a cluster's jobs and workers cost."""
        subject = subjects.ledger(ref, "costs")
        return await call(self._client, subject, request, CostPage, timeout_seconds=COSTS_SECONDS)

    async def spending(self, ref: ClusterRef, viewer: Viewer, by: tuple[SpendingDimension, ...]) -> Spending:
        """What a cluster costs now, this month and probably by its end."""
        request = ReadSpending(viewer=viewer, by=by)
        subject = subjects.ledger(ref, "spending")
        return await call(self._client, subject, request, Spending, timeout_seconds=COSTS_SECONDS)

    async def job(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> JobCost:
        """What a job cost. A job that the viewer may not see is `not_found`."""
        request = ReadJobCost(viewer=viewer, job_id=job_id)
        return await call(self._client, subjects.ledger(ref, "job"), request, JobCost, timeout_seconds=USAGE_SECONDS)

    async def runs(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> RunCosts:
        """What each run of a job cost. A job that the viewer may not see is `not_found`."""
        request = ReadRunCosts(viewer=viewer, job_id=job_id)
        return await call(self._client, subjects.ledger(ref, "runs"), request, RunCosts, timeout_seconds=COSTS_SECONDS)

    async def jobs(self, ref: ClusterRef, request: ReadJobCosts) -> JobCosts:
        """What several jobs cost, in one read."""
        subject = subjects.ledger(ref, "jobs")
        return await call(self._client, subject, request, JobCosts, timeout_seconds=LIST_COSTS_SECONDS)


class HistoryRequests(_Requests):
    """Requests to the archive of events."""

    async def history(self, ref: ClusterRef, request: ReadHistory) -> HistoryPage:
        """A page of a cluster's events."""
        return await call(self._client, subjects.history(ref), request, HistoryPage)

    async def tenant_history(self, tenant: TenantRef, request: ReadTenantHistory) -> HistoryPage:
        """A page of the events of several clusters of a tenant."""
        return await call(self._client, subjects.tenant_history(tenant), request, HistoryPage)

    async def events(
        self,
        ref: ClusterRef,
        request: ReadHistory,
        *,
        most: int,
        enough: Callable[[Sequence[Event]], bool] = lambda _found: False,
    ) -> tuple[list[Event], bool]:
        """The events of the pages from a request on, until there are `most` or they are `enough`.

        Returns with them whether these are all, or enough.
        """
        found: list[Event] = []
        cursor = request.cursor
        for _ in range(MAX_HISTORY_PAGES):
            if len(found) >= most:
                break
            page = await self.history(ref, request.model_copy(update={"cursor": cursor}))
            found += page.events
            cursor = page.cursor
            if cursor is None or enough(found):
                return found, True
        return found, False
