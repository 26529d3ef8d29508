"""Interactive sessions as the API shows them: finds one and what its job does, for its owner and for nobody else."""

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clusterra_contracts.identity import ClusterRef, JobId, Moment, SlurmUser
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.edge_streams import SessionJob, SessionReady
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.money.quotas.admission import QuotaLeft
from clusterra_gateway.submission.models import CONFIRMED, TemplateValues

SessionState = Literal["pending", "starting", "ready", "ended"]
"""`pending`: its job waits. `starting`: its job runs, and its server takes no connections yet."""


class NewSession(TemplateValues):
    """A session to start: an interactive template, and the values for it."""

    def digest(self) -> str:
        """Identifies the request among those with one Idempotency-Key."""
        return hashlib.sha256(f"session\n{self.model_dump_json(exclude={CONFIRMED})}".encode()).hexdigest()


class StartedSession(ResponseBody):
    """A session that was submitted: the job with this id."""

    job_id: JobId
    template_id: str
    repeated: bool
    warnings: tuple[str, ...]
    quotas: tuple[QuotaLeft, ...] = ()


class SessionDetail(ResponseBody):
    """A session. It is its owner's alone: nobody else sees it, whatever their role."""

    job_id: JobId
    template_id: str
    name: str
    state: SessionState
    detail: str
    """What it waits for, or how its job ended; empty while it is ready."""
    created_at: Moment
    idle_cull_min: int | None
    """After how many minutes without use its job is cancelled; null: never."""


class SessionList(ResponseBody):
    """The caller's sessions that have not ended."""

    sessions: tuple[SessionDetail, ...]
    total: int


class EntryTicket(ResponseBody):
    """The way into a session: a form with the field `ticket`, posted to `url` once and within a minute."""

    url: str
    """An address on the sessions' origin. Browsers may post to it from the API's origin and from consoles only."""
    ticket: str
    valid_until: Moment


WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED"})
AT_ONCE = 8
"""How many sessions of a list are looked at at the same time."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as it is now. `ready` and `job` are set in the state `ready`."""

    record: SessionRecord
    state: SessionState
    detail: str = ""
    job: SessionJob | None = None
    ready: SessionReady | None = None
    started_at: datetime | None = None
    """When its job began to run, in the state `ready`."""

    def shown(self) -> SessionDetail:
        """What the API shows of it."""
        culled_after = self.record.idle_cull_min or None
        return SessionDetail.showing(self.record, state=self.state, detail=self.detail, idle_cull_min=culled_after)


class SessionJobs:
    """Looks sessions up. Methods raise NotFound, RpcFailed, StoreUnavailable."""

    def __init__(self, records: SessionRecords, slurm: SlurmRequests, edge: EdgeRequests) -> None:
        self.records = records
        self._slurm = slurm
        self._edge = edge

    async def find(self, ref: ClusterRef, member_id: str, user: SlurmUser, job_id: JobId) -> SessionView:
        """A session of this member, who is this user of the cluster."""
        record = await self.records.read(ref, job_id)
        if record is None or record.member != member_id:
            raise NotFound("you have no such session", hint="GET .../sessions lists yours")
        return await self.view(ref, user, record)

    async def all(self, ref: ClusterRef, member_id: str, user: SlurmUser, limit: int) -> tuple[SessionView, ...]:
        """The sessions of a member that have not ended, the newest first."""
        records, turns = await self.records.of_member(ref, member_id, limit), asyncio.Semaphore(AT_ONCE)

        async def one(record: SessionRecord) -> SessionView:
            async with turns:
                return await self.view(ref, user, record)

        views = await asyncio.gather(*map(one, records))
        return tuple(sorted(views, key=lambda each: each.record.created_at, reverse=True))

    async def cancel(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> None:
        """Cancels the job of a session."""
        await self._slurm.cancel(ref, viewer, job_id)

    async def view(self, ref: ClusterRef, user: SlurmUser, record: SessionRecord) -> SessionView:
        """What a session does now."""
        job = await self._job(ref, user, record.job_id)
        # A job of another user with this id cannot be the session: Slurm has begun to count again.
        if job is None or job.uid != user.uid or job.state in ENDED:
            if not record.ended:
                await self.records.end(ref, record.job_id)
            return SessionView(record, "ended", _end_of(job if job is not None and job.uid == user.uid else None))
        if job.state in WAITING or not job.nodes:
            return SessionView(record, "pending", f"its job is {job.state}{f' ({job.reason})' if job.reason else ''}")
        session = SessionJob(job_id=record.job_id, uid=user.uid, worker=job.nodes[0])
        try:
            ready = await self._edge.session(ref, session)
        except RpcFailed as failed:
            if failed.error.kind not in ("not_found", "unavailable"):
                raise
            return SessionView(record, "starting", failed.error.detail)
        return SessionView(record, "ready", "", session, ready, job.started_at)

    async def _job(self, ref: ClusterRef, user: SlurmUser, job_id: JobId) -> Job | None:
        try:
            return await self._slurm.job(ref, Viewer(user=user), job_id)
        except RpcFailed as failed:
            if failed.error.kind == "not_found":
                return None
            raise


def _end_of(job: Job | None) -> str:
    """How the job of a session ended, as far as Slurm still knows it."""
    if job is None:
        return "its job has ended"
    code = f", exit code {job.exit_code}" if job.exit_code is not None else ""
    return f"its job has ended ({job.state}{code}); the job's output may say why"
