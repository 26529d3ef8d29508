"""Stands in for the proxy of a cluster, before Slurm: it keeps jobs in memory, and notes what it is asked."""

import asyncio
import base64
import zlib
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import override

from answering import rpc_failure
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import ESTIMATED_JOB_ID, Prepare, Prepared
from clusterra_contracts.rpc.job_search import is_found
from clusterra_contracts.rpc.reply import Done, ErrorKind
from clusterra_contracts.rpc.slurm import (
    Cancel,
    CountJobs,
    GetJob,
    Job,
    JobCounts,
    JobPage,
    ListJobs,
    Submit,
    Submitted,
    Viewer,
)
from clusterra_contracts.rpc.slurm_jobs import ChangeJob, Update
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_contracts.rpc.slurm_rest import ReadRest, RestCursor, RestPart
from clusterra_contracts.rpc.slurm_scripts import JobScript, ReadScript
from clusterra_contracts.rpc.slurm_steps import JobSteps, ReadSteps
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import serve
from nats.aio.subscription import Subscription


class NotedBlocks(SlurmRequests):
    """Notes whom Slurm is to refuse. The gateway itself tells the stand-in, too."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.blocks: list[BlockSubmits] = []

    @override
    async def block_submits(self, ref: ClusterRef, request: BlockSubmits) -> None:
        self.blocks.append(request)
        await super().block_submits(ref, request)


@dataclass
class ProxyStandIn:
    """The test adds jobs; a submit adds a job, but only one for each key of a user."""

    ref: ClusterRef
    jobs: dict[str, Job] = field(default_factory=dict)
    submits: list[Submit] = field(default_factory=list)
    lists: list[ListJobs] = field(default_factory=list)
    prepared: list[Prepare] = field(default_factory=list)
    time_limit_seconds: float | None = None
    """Of every job that is prepared."""
    cancelled: list[str] = field(default_factory=list)
    cancellers: list[Viewer] = field(default_factory=list)
    changes: list[ChangeJob] = field(default_factory=list)
    searches: bool = True
    """Whether it is of this release: the one before ignores a search."""
    change_error: ErrorKind | None = None
    """Answers every change with this error."""
    rests: list[ReadRest] = field(default_factory=list)
    blocks: list[BlockSubmits] = field(default_factory=list)
    steps: dict[str, JobSteps] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
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

    def served(self, client: Client) -> tuple[Awaitable[Subscription], ...]:
        slurm = f"slurm.{self.ref.tenant}.{self.ref.cluster}"
        return (
            serve(client, f"{slurm}.submit", Submit, self._submit),
            serve(client, f"{slurm}.prepare", Prepare, self._prepare),
            serve(client, f"{slurm}.get", GetJob, self._get),
            serve(client, f"{slurm}.list", ListJobs, self._list),
            serve(client, f"{slurm}.count", CountJobs, self._count),
            serve(client, f"{slurm}.cancel", Cancel, self._cancel),
            serve(client, f"{slurm}.block-submits", BlockSubmits, self._block),
            serve(client, f"{slurm}.change", ChangeJob, self._change),
            serve(client, f"{slurm}.rest", ReadRest, self._rest),
            serve(client, f"{slurm}.steps", ReadSteps, self._steps),
            serve(client, f"{slurm}.script", ReadScript, self._script),
        )

    def add_job(self, job_id: str, *, state: str = "RUNNING", user: str = "ada", uid: int = 20001) -> Job:
        job = Job(job_id=job_id, name="hello", user=user, uid=uid, state=state, partition="main", submitted_at=now())
        self.jobs[job_id] = job
        return job

    def set_state(self, job_id: str, state: str, *, restarts: int = 0) -> None:
        self.jobs[job_id] = self.jobs[job_id].model_copy(update={"state": state, "restarts": restarts})

    def visible(self, viewer: Viewer, job_id: str) -> Job:
        """A job that this viewer sees. Raises RpcFailed."""
        if job_id in self.unreadable_jobs:
            raise rpc_failure("unavailable", f"job {job_id} cannot be read")
        job = self.jobs.get(job_id)
        if job is None or not viewer.sees(job.uid):
            raise rpc_failure("not_found", f"there is no job {job_id}")
        return job

    def _changeable(self, viewer: Viewer, job_id: str) -> Job:
        job = self.visible(viewer, job_id)
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

    async def _get(self, _subject: Subject, request: GetJob) -> Job:
        return self.visible(request.viewer, request.job_id)

    async def _list(self, _subject: Subject, request: ListJobs) -> JobPage:
        self.lists.append(request)
        found = self._matching(request)
        at = int(request.cursor) if request.cursor and request.cursor.isdecimal() else 0
        page = found[at : at + request.limit]
        more = at + len(page) < len(found)
        return JobPage(jobs=page, total=len(found), cursor=str(at + len(page)) if more else None)

    def _matching(self, request: ListJobs) -> tuple[Job, ...]:
        return tuple(
            job
            for job in self.jobs.values()
            if request.viewer.sees(job.uid)
            and (request.states is None or job.state in request.states)
            and (request.search is None or not self.searches or is_found(request.search, job.job_id, job.name))
        )

    async def _count(self, _subject: Subject, asked: CountJobs) -> JobCounts:
        self.lists.append(asked.request)
        states = Counter(job.state for job in self._matching(asked.request))
        return JobCounts(states=dict(states), total=states.total())

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
                self.visible(request.viewer, request.name)
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

    async def _steps(self, _subject: Subject, request: ReadSteps) -> JobSteps:
        self.visible(request.viewer, request.job_id)
        return self.steps.get(request.job_id, JobSteps(runs=()))

    async def _script(self, _subject: Subject, request: ReadScript) -> JobScript:
        self.visible(request.viewer, request.job_id)
        if request.job_id not in self.scripts:
            raise rpc_failure(
                "not_found",
                "Slurm's accounting has no script of this job",
                hint="with AccountingStoreFlags=job_script in slurm.conf, it has",
            )
        return JobScript(packed=base64.b64encode(zlib.compress(self.scripts[request.job_id].encode())))
