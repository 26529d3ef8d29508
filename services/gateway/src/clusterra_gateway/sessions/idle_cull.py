"""Cancels the jobs of sessions that nobody uses, after a warning to their owner.

A session is in use while bytes go over its streams, and while a kernel of a notebook is busy. As it looks at every
session, it also notes which ones have become ready. Every replica looks; a mark and its event are one conditional
write, and cancelling twice is harmless.
"""

from datetime import datetime
from typing import Literal

import aiohttp
import structlog
from clusterra_contracts.events import JobActionFact
from clusterra_contracts.identity import ClusterRef, JobId, Moment, SlurmUser, now
from clusterra_contracts.rpc.edge_streams import SessionJob
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.byte_stream.opener import ByteStream
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecord
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.sessions.connector import StreamConnector
from clusterra_gateway.sessions.entrance import Entrance, page_path
from clusterra_gateway.sessions.readiness import mark_ready
from clusterra_gateway.sessions.session_jobs import SessionJobs, SessionView

log = structlog.get_logger()

INTERVAL_SECONDS = 20.0
LOOK_SECONDS = 30.0
WARNING_SECONDS = 300.0
"""How long before its end the owner of an idle session is warned, for half of the idle time at most."""
BOUNDS = Bounds(at_once=16, per_cluster=4)
ACTOR = Viewer(user=SlurmUser(name="idle-cull", uid=64_996, gid=64_996), admin=True)
"""Who cancels: the name stands in the job's history."""
MAX_KERNELS_BYTES = 1024 * 1024
_KERNELS_TIMEOUT = aiohttp.ClientTimeout(total=10.0)

type _Session = tuple[ClusterRef, JobId]
type Action = Literal["keep", "warn", "withdraw", "cancel"]
"""`withdraw`: the session is in use again, so its warning is void."""


class SessionSilent(Exception):
    """The session's server did not answer, so nobody knows what its kernels do."""


class Kernel(BaseModel):
    """A kernel, as the server of a notebook tells."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    execution_state: str
    last_activity: Moment


_KERNELS = TypeAdapter(list[Kernel])


async def last_activity(
    client: Client, ref: ClusterRef, session: SessionJob, token: str, *, strip_prefix: bool, now: datetime
) -> datetime | None:
    """When a kernel was last active: now for a busy one; None without kernels, and for what is no notebook.

    Raises SessionSilent.
    """

    async def open_stream(_host: str) -> ByteStream:
        return await ByteStream.open(client, ref, session, probe=True)

    connector = StreamConnector(open_stream)
    prefix = "" if strip_prefix else page_path(ref.cluster, session.job_id)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_KERNELS_TIMEOUT) as http,
            http.get(
                f"http://session{prefix}/api/kernels",
                headers={"Authorization": f"token {token}"},
                allow_redirects=False,
            ) as answer,
        ):
            content = b""
            async for chunk in answer.content.iter_chunked(64 * 1024):
                content += chunk
                if len(content) > MAX_KERNELS_BYTES:
                    raise SessionSilent("the list of its kernels is too long")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise SessionSilent(str(error) or type(error).__name__) from error
    finally:
        await connector.end()
    if answer.status != 200:
        return None
    try:
        kernels = _KERNELS.validate_json(content)
    except ValidationError:
        return None
    return max((now if each.execution_state == "busy" else each.last_activity for each in kernels), default=None)


def warning_seconds(cull_seconds: float) -> float:
    """How long before the end of the idle time its owner is warned."""
    return min(WARNING_SECONDS, cull_seconds / 2)


def decide(idle_seconds: float, cull_seconds: float, warned_seconds_ago: float | None) -> Action:
    """What to do with a session that has been idle for `idle_seconds`. `warned_seconds_ago` is None without a warning.

    It is cancelled only when the whole time of the warning has passed, also when no gateway looked for a while.
    """
    lead = warning_seconds(cull_seconds)
    if idle_seconds < cull_seconds - lead:
        return "keep" if warned_seconds_ago is None else "withdraw"
    if warned_seconds_ago is None:
        return "warn"
    return "cancel" if idle_seconds >= cull_seconds and warned_seconds_ago >= lead else "keep"


class IdleCull:
    """Looks at all sessions, again and again."""

    def __init__(
        self,
        client: Client,
        directory: Directory,
        registry: Registry,
        unix_users: UnixUsers,
        jobs: SessionJobs,
        entrance: Entrance,
    ) -> None:
        self._client = client
        self._directory = directory
        self._records = jobs.records
        self._registry = registry
        self._unix_users = unix_users
        self._jobs = jobs
        self._entrance = entrance
        self.minute_seconds = 60.0
        """How long a minute of a template is; tests have less time."""

    def sweeper(self) -> Sweeper[_Session]:
        """Looks at each session every few seconds. One that cannot be looked at is left as it is."""
        failures = (StoreError, RequestError, RpcFailed)
        sweep = Sweep("idle sessions", self._records.running, self._visit, _place, failures)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, LOOK_SECONDS), BOUNDS)

    async def _visit(self, session: _Session) -> None:
        ref, job_id = session
        try:
            await self._look_at(ref, job_id)
        except SessionSilent as error:
            # The cluster answers: only this session does not.
            log.info("session_silent", tenant=ref.tenant, job=job_id, reason=str(error))

    async def _look_at(self, ref: ClusterRef, job_id: JobId) -> None:
        record, binding = await self._records.read(ref, job_id), self._registry.get(ref)
        if record is None or record.ended:
            await self._records.end(ref, job_id)
            return
        member = await self._directory.member(record.member)
        if binding is None or member is None:
            return
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            return
        view = await self._jobs.view(ref, there.user, record)
        if view.state != "ready":
            return
        await mark_ready(self._records, self._directory.outbox, ref, there.user, record)
        if record.idle_cull_min:
            await self._deal_with(ref, there.user, view, record.idle_cull_min * self.minute_seconds)

    async def _deal_with(self, ref: ClusterRef, owner: SlurmUser, view: SessionView, cull_seconds: float) -> None:
        at, record = now(), view.record
        idle_seconds = await self._idle_seconds(ref, view, cull_seconds, at)
        warned_ago = None if record.warned_at is None else (at - record.warned_at).total_seconds()
        match decide(idle_seconds, cull_seconds, warned_ago):
            case "warn":
                await self._warn(ref, owner, record, idle_seconds, at)
            case "withdraw":
                await self._records.withdraw_warning(ref, record.job_id)
            case "cancel":
                log.info("idle_session_cancelled", tenant=ref.tenant, job=record.job_id, idle_seconds=idle_seconds)
                await self._jobs.cancel(ref, ACTOR, record.job_id)

    async def _idle_seconds(self, ref: ClusterRef, view: SessionView, cull_seconds: float, at: datetime) -> float:
        """For how long a session was not used. Raises SessionSilent, Unauthenticated."""
        assert view.ready is not None  # noqa: S101 - the session is ready
        assert view.job is not None  # noqa: S101 - likewise
        age = 0.0 if view.started_at is None else (at - view.started_at).total_seconds()
        # An agent of another release may not tell: then nothing is known, and nothing is done.
        idle = min(age, view.ready.idle_seconds or 0.0)
        if idle < cull_seconds - warning_seconds(cull_seconds):
            return idle
        token = self._entrance.token(ref, view.record)
        active_at = await last_activity(
            self._client, ref, view.job, token, strip_prefix=view.ready.strip_prefix, now=at
        )
        return idle if active_at is None else min(idle, max((at - active_at).total_seconds(), 0.0))

    async def _warn(
        self, ref: ClusterRef, owner: SlurmUser, record: SessionRecord, idle_seconds: float, at: datetime
    ) -> None:
        minutes = record.idle_cull_min
        fact = JobActionFact(
            kind="action.warn",
            job_id=record.job_id,
            name=record.name,
            user=owner.name,
            uid=owner.uid,
            actor=ACTOR.user.name,
            detail=f"nobody uses this session; its job is cancelled after {minutes} minutes without use",
        )
        message = cluster_event(ref, fact, version=f"idle-{int(at.timestamp())}", at=at)
        if await self._records.mark_once(self._directory.outbox, ref, record.job_id, "warned_at", message):
            log.info("idle_session_warned", tenant=ref.tenant, job=record.job_id, idle_seconds=idle_seconds)


def _place(named: _Session) -> Place:
    ref, name = named
    return Place(ref.tenant, ref.cluster, name)
