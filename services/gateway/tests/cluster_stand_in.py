"""Stands in for a cluster's proxy, edge and scaler and for the archive: answers on a real NATS as the contracts say."""

import asyncio
import base64
import zlib
from dataclasses import dataclass, field

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.costs import (
    CostPage,
    CostRow,
    JobCost,
    ReadCosts,
    ReadJobCost,
    ReadRunCosts,
    ReadSpending,
    RunCosts,
    Spending,
    SpendingRow,
)
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.edge_folders import FileChunk, FolderPage, ListFolder, ReadFile
from clusterra_contracts.rpc.estimate import (
    ESTIMATED_JOB_ID,
    Estimate,
    EstimatedWorkers,
    EstimateJob,
    Prepare,
    Prepared,
)
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.reply import Done, ErrorKind, RpcError
from clusterra_contracts.rpc.slurm import Cancel, GetJob, Job, JobPage, ListJobs, Submit, Submitted, Viewer
from clusterra_contracts.rpc.slurm_jobs import ChangeJob, Update
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_contracts.rpc.slurm_rest import ReadRest, RestCursor, RestPart
from clusterra_contracts.rpc.slurm_steps import JobSteps, ReadSteps
from clusterra_contracts.rpc.why import ExplainJob, Explanation, JobPlace
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import RpcFailed, serve
from nats.aio.subscription import Subscription


def rpc_failure(kind: ErrorKind, detail: str = "no") -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail))


@dataclass
class ClusterStandIn:
    """The test adds jobs and output; a submit adds a job, but only one for each key of a user."""

    ref: ClusterRef
    jobs: dict[str, Job] = field(default_factory=dict)
    output: dict[tuple[str, str], bytes] = field(default_factory=dict)
    submits: list[Submit] = field(default_factory=list)
    lists: list[ListJobs] = field(default_factory=list)
    reads: list[ReadLog] = field(default_factory=list)
    listings: list[ListFolder] = field(default_factory=list)
    folder_error: ErrorKind | None = None
    """Answers every look at a folder or a file with this error."""
    shared_file: bytes = b"shared\n"
    """What every file of the shared folder has."""
    file_reads: list[ReadFile] = field(default_factory=list)
    prepared: list[Prepare] = field(default_factory=list)
    time_limit_seconds: float | None = None
    """Of every job that is prepared."""
    explained: list[ExplainJob] = field(default_factory=list)
    unexplained: ErrorKind | None = None
    """Answers every `why` with this error."""
    cancelled: list[str] = field(default_factory=list)
    cancellers: list[Viewer] = field(default_factory=list)
    changes: list[ChangeJob] = field(default_factory=list)
    change_error: ErrorKind | None = None
    """Answers every change with this error."""
    rests: list[ReadRest] = field(default_factory=list)
    histories: list[ReadHistory] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    costs: list[CostRow] = field(default_factory=list)
    cost_reads: list[ReadCosts] = field(default_factory=list)
    costs_fail_after: int | None = None
    """The number of pages of costs that are answered before the ledger fails."""
    blocks: list[BlockSubmits] = field(default_factory=list)
    job_costs: dict[str, JobCost] = field(default_factory=dict)
    run_costs: dict[str, RunCosts] = field(default_factory=dict)
    steps: dict[str, JobSteps] = field(default_factory=dict)
    spending: list[SpendingRow] = field(default_factory=list)
    """What the ledger answers, whatever it is asked for."""
    history_fails_after: int | None = None
    archive_position: int | None = None
    """The number of pages of the archive that are answered before it fails."""
    refuse_submits: ErrorKind | None = None
    """Answers every submit, but no other check of a submission, with this error."""
    submit_error: ErrorKind | None = None
    """Answers every submit with this error."""
    unreadable_jobs: set[str] = field(default_factory=set)
    """The jobs whose details nobody can read."""
    lose_replies: int = 0
    """The number of submits that make a job but are answered with `unavailable`."""
    hold: asyncio.Event | None = None
    """Every submit waits for it."""
    keys: dict[tuple[int, str], Submitted] = field(default_factory=dict)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    _subscriptions: list[Subscription] = field(default_factory=list)
    _client: Client | None = None

    async def serve(self, client: Client) -> None:
        self._client = client
        slurm = f"slurm.{self.ref.tenant}.{self.ref.cluster}"
        self._subscriptions = [
            await serve(client, f"{slurm}.submit", Submit, self._submit),
            await serve(client, f"{slurm}.prepare", Prepare, self._prepare),
            await serve(client, f"{slurm}.get", GetJob, self._get),
            await serve(client, f"{slurm}.list", ListJobs, self._list),
            await serve(client, f"{slurm}.cancel", Cancel, self._cancel),
            await serve(client, f"{slurm}.block-submits", BlockSubmits, self._block),
            await serve(client, f"{slurm}.change", ChangeJob, self._change),
            await serve(client, f"{slurm}.rest", ReadRest, self._rest),
            await serve(client, f"edge.{self.ref.tenant}.{self.ref.cluster}.log", ReadLog, self._log),
            await serve(client, f"edge.{self.ref.tenant}.{self.ref.cluster}.folder", ListFolder, self._folder),
            await serve(client, f"edge.{self.ref.tenant}.{self.ref.cluster}.file", ReadFile, self._file),
            await serve(client, f"scaler.{self.ref.tenant}.{self.ref.cluster}.why", ExplainJob, self._why),
            await serve(client, f"scaler.{self.ref.tenant}.{self.ref.cluster}.estimate", EstimateJob, self._estimate),
            await serve(client, f"history.{self.ref.tenant}.{self.ref.cluster}", ReadHistory, self._history),
            await serve(client, f"ledger.{self.ref.tenant}.{self.ref.cluster}.costs", ReadCosts, self._costs),
            await serve(client, f"ledger.{self.ref.tenant}.{self.ref.cluster}.job", ReadJobCost, self._job_cost),
            await serve(client, f"ledger.{self.ref.tenant}.{self.ref.cluster}.runs", ReadRunCosts, self._run_costs),
            await serve(client, f"{slurm}.steps", ReadSteps, self._steps),
            await serve(client, f"ledger.{self.ref.tenant}.{self.ref.cluster}.spending", ReadSpending, self._spend),
        ]

    async def stop_serving(self) -> None:
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        self._subscriptions = []
        if self._client is not None:
            # Else the server may send the next request to one of these subscriptions, and nobody answers it.
            await self._client.flush()

    def add_job(self, job_id: str, *, state: str = "RUNNING", user: str = "ada", uid: int = 20001) -> Job:
        job = Job(job_id=job_id, name="hello", user=user, uid=uid, state=state, partition="main", submitted_at=now())
        self.jobs[job_id] = job
        return job

    def set_state(self, job_id: str, state: str, *, restarts: int = 0) -> None:
        self.jobs[job_id] = self.jobs[job_id].model_copy(update={"state": state, "restarts": restarts})

    def empty_output(self, job_id: str) -> None:
        self.output[job_id, "stdout"] = b""

    def write_output(self, job_id: str, data: bytes, stream: str = "stdout") -> None:
        self.output[job_id, stream] = self.output.get((job_id, stream), b"") + data
        self.written.set()
        self.written = asyncio.Event()

    def _visible(self, viewer: Viewer, job_id: str) -> Job:
        if job_id in self.unreadable_jobs:
            raise rpc_failure("unavailable", f"job {job_id} cannot be read")
        job = self.jobs.get(job_id)
        if job is None or not viewer.sees(job.uid):
            raise rpc_failure("not_found", f"there is no job {job_id}")
        return job

    def _changeable(self, viewer: Viewer, job_id: str) -> Job:
        job = self._visible(viewer, job_id)
        if not viewer.changes(job.uid):
            raise rpc_failure("forbidden", f"job {job_id} belongs to another user")
        return job

    async def _submit(self, _subject: Subject, submit: Submit) -> Submitted:
        self.submits.append(submit)
        if self.refuse_submits is not None:
            raise rpc_failure(self.refuse_submits, "refused as the test wants it")
        if self.hold is not None:
            await self.hold.wait()
        if self.submit_error is not None:
            raise rpc_failure(self.submit_error, "rejected as the test wants it")
        key = (submit.user.uid, submit.idempotency_key or f"none-{len(self.submits)}")
        if key in self.keys:
            return self.keys[key].model_copy(update={"repeated": True})
        if submit.claim is not None and submit.claim.begin_by is None:
            raise rpc_failure("not_found", "no job has this key yet")
        job_id = str(len(self.jobs) + 1)
        self.add_job(job_id, state="PENDING", user=submit.user.name, uid=submit.user.uid)
        for number, _ in enumerate(submit.components, start=1):
            self.add_job(str(int(job_id) + number), state="PENDING", user=submit.user.name, uid=submit.user.uid)
        if submit.components:
            ids = tuple(str(int(job_id) + number) for number in range(len(submit.components) + 1))
            for offset, each in enumerate(ids):
                of_one = {"het_job_id": job_id, "het_offset": offset, "het_components": ids}
                self.jobs[each] = self.jobs[each].model_copy(update=of_one)
        self.keys[key] = Submitted(job_id=job_id, accepted_at=now())
        if self.lose_replies:
            self.lose_replies -= 1
            raise rpc_failure("unavailable", "the reply is lost")
        return self.keys[key]

    async def _prepare(self, _subject: Subject, request: Prepare) -> Prepared:
        """As an array of ten tasks."""
        self.prepared.append(request)
        if self.submit_error is not None:
            raise rpc_failure(self.submit_error, "rejected as the test wants it")
        job = PendingJobs(
            job_ids=(ESTIMATED_JOB_ID,),
            count=10,
            cpus=1,
            partition="main",
            uid=request.user.uid,
            reason="Resources",
            first_submitted_at=now(),
            time_limit_seconds=self.time_limit_seconds,
        )
        return Prepared(
            job=job,
            tasks=10,
            warnings=("line 2 of the script: no effect",),
            components=tuple(job.model_copy(update={"cpus": 2}) for _ in request.components),
        )

    async def _estimate(self, _subject: Subject, request: EstimateJob) -> Estimate:
        return Estimate(
            wait="boot",
            text="Its tasks would wait until workers of the shape compute-xs have started.",
            workers=(EstimatedWorkers(kind="new", shape="compute-xs", count=5),),
            expected_start=request.job.first_submitted_at,
            usd_per_hour=0.04,
            limit_seconds=5400,
            tasks=request.tasks,
            snapshot_generation=9,
            as_of=request.job.first_submitted_at,
        )

    async def _get(self, _subject: Subject, request: GetJob) -> Job:
        return self._visible(request.viewer, request.job_id)

    async def _list(self, _subject: Subject, request: ListJobs) -> JobPage:
        self.lists.append(request)
        found = tuple(
            job
            for job in self.jobs.values()
            if request.viewer.sees(job.uid) and (request.states is None or job.state in request.states)
        )
        return JobPage(jobs=found, total=len(found))

    async def _cancel(self, _subject: Subject, request: Cancel) -> Done:
        job = self._changeable(request.viewer, request.job_id)
        self.cancelled.append(job.job_id)
        self.cancellers.append(request.viewer)
        self.set_state(job.job_id, "CANCELLED")
        return Done()

    async def _block(self, _subject: Subject, request: BlockSubmits) -> Done:
        self.blocks.append(request)
        return Done()

    async def _change(self, _subject: Subject, request: ChangeJob) -> Done:
        self._changeable(request.viewer, request.jobs.partition("_")[0])
        if self.change_error is not None:
            raise rpc_failure(self.change_error, "refused as the test wants it")
        self.changes.append(request)
        if isinstance(request.change, Update) and (minutes := request.change.changes.time_limit):
            job_id = request.jobs.partition("_")[0]
            self.jobs[job_id] = self.jobs[job_id].model_copy(update={"time_limit_seconds": minutes * 60.0})
        return Done()

    async def _rest(self, _subject: Subject, request: ReadRest) -> RestPart:
        """Each part of a list has one record."""
        self.rests.append(request)
        if request.resource != "slurm/jobs":
            if request.resource.endswith("/job"):
                self._visible(request.viewer, request.name)
            return RestPart(answer='{"pings":[],"errors":[],"warnings":[],"meta":{}}')
        jobs = [job for job in self.jobs.values() if request.viewer.sees(job.uid)]
        at = 0 if request.after is None else int(request.after.key)
        if at > len(jobs):
            raise rpc_failure("unavailable", "Slurm does not answer")
        record = f'{{"job_id":{jobs[at].job_id}}}' if jobs else ""
        return RestPart(
            answer='{"last_update":{"set":true,"infinite":false,"number":7},"errors":[],"warnings":[],"meta":{}}',
            listed="jobs",
            blocks=(base64.b64encode(zlib.compress(record.encode())),) if jobs else (),
            after=RestCursor(group=0, key=str(at + 1)) if at + 1 < len(jobs) else None,
        )

    async def _folder(self, _subject: Subject, request: ListFolder) -> FolderPage:
        self.listings.append(request)
        if self.folder_error is not None:
            raise rpc_failure(self.folder_error, "the edge opened nothing")
        return FolderPage(entries=())

    async def _file(self, _subject: Subject, request: ReadFile) -> FileChunk:
        self.file_reads.append(request)
        if self.folder_error is not None:
            raise rpc_failure(self.folder_error, "the edge opened nothing")
        data = self.shared_file[request.offset : request.offset + request.limit]
        size = len(self.shared_file)
        return FileChunk.model_construct(offset=request.offset, size=size, modified_ns=1, data=data)

    async def _log(self, _subject: Subject, request: ReadLog) -> LogChunk:
        self.reads.append(request)
        place = (request.job_id, request.stream)
        if place not in self.output or self.jobs[request.job_id].uid != request.uid:
            raise rpc_failure("not_found", "no such output")
        if len(self.output[place]) <= request.offset and request.wait_seconds:
            try:
                async with asyncio.timeout(request.wait_seconds):
                    await self.written.wait()
            except TimeoutError:
                pass
        written = self.output[place]
        data = written[request.offset : request.offset + request.limit]
        return LogChunk.model_construct(offset=request.offset, size=len(written), data=data)

    async def _why(self, _subject: Subject, request: ExplainJob) -> Explanation:
        self.explained.append(request)
        if self.unexplained is not None:
            raise rpc_failure(self.unexplained, "the scaler cannot explain it")
        job = self._visible(request.viewer, request.job_id)
        return Explanation(
            job_id=job.job_id,
            state="pending",
            reason="Resources",
            cause="nodes",
            text="It waits for a worker of the shape compute-xs, which is ordered and not started yet.",
            places=(JobPlace(kind="ordered", shape="compute-xs"),),
            usd_per_hour=0.05,
            generation=7,
            snapshot_generation=9,
            as_of=job.submitted_at,
        )

    async def _costs(self, _subject: Subject, request: ReadCosts) -> CostPage:
        """Rows in pages of two."""
        self.cost_reads.append(request)
        begin = int(request.cursor) if request.cursor is not None and request.cursor.isdecimal() else 0
        if self.costs_fail_after is not None and begin // 2 >= self.costs_fail_after:
            raise rpc_failure("unavailable", "the ledger does not answer")
        shares = sum(row.micro_usd or 0 for row in self.costs if row.purpose == "job")
        return CostPage(
            rows=tuple(self.costs[begin : begin + 2]),
            shares_micro_usd=shares,
            overhead_micro_usd=sum(row.micro_usd or 0 for row in self.costs) - shares,
            as_of=now(),
            cursor=str(begin + 2) if begin + 2 < len(self.costs) else None,
        )

    async def _job_cost(self, _subject: Subject, request: ReadJobCost) -> JobCost:
        self._visible(request.viewer, request.job_id)
        return self.job_costs.get(request.job_id, JobCost(runs=0, micro_usd=0, as_of=now()))

    async def _run_costs(self, _subject: Subject, request: ReadRunCosts) -> RunCosts:
        self._visible(request.viewer, request.job_id)
        return self.run_costs.get(request.job_id, RunCosts(job=JobCost(runs=0, micro_usd=0, as_of=now()), runs=()))

    async def _steps(self, _subject: Subject, request: ReadSteps) -> JobSteps:
        self._visible(request.viewer, request.job_id)
        return self.steps.get(request.job_id, JobSteps(runs=()))

    async def _spend(self, _subject: Subject, request: ReadSpending) -> Spending:
        seen = [row for row in self.spending if row.purpose == "job" and request.viewer.sees(row.uid)]
        if request.viewer.only_uid is None:
            seen = self.spending
        return Spending(rows=tuple(seen), as_of=now())

    async def _history(self, _subject: Subject, request: ReadHistory) -> HistoryPage:
        if self.history_fails_after is not None and len(self.histories) >= self.history_fails_after:
            raise rpc_failure("unavailable", "the archive does not answer")
        self.histories.append(request)
        begin = int(request.cursor) if request.cursor is not None and request.cursor.isdigit() else 0
        end = begin + request.limit
        page = tuple(self.events[begin:end])
        cursor = str(end) if end < len(self.events) else None
        return HistoryPage(events=page, cursor=cursor, position=self.archive_position)
