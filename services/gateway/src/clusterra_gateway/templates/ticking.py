"""Submits the schedules that are due, each tick exactly once.

One replica does it at a time: the holder of a lease. That saves work and is no guarantee. The guarantee is the key of
the submit, which names the schedule and the tick: two replicas, or one after another that died, make one job.
"""

from collections.abc import Callable
from datetime import datetime

import structlog
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper
from clusterra_templates.definitions import AnyWorkflow
from clusterra_templates.rendering import Wanted

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import includes
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import (
    Conflict,
    Forbidden,
    InFlight,
    InvalidRequest,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    RequestError,
    TooLarge,
    Unavailable,
)
from clusterra_gateway.identity.access.unix_users import AbsentOwner, UnixUsers
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import job_of, job_run_id, workflow_of
from clusterra_gateway.templates.rendering import Prepared, Renderings
from clusterra_gateway.templates.schedule import LATE, Schedule, ScheduleRecords
from clusterra_gateway.workflows.room import WorkflowParts
from clusterra_gateway.workflows.start import run_id_of

log = structlog.get_logger()

INTERVAL_SECONDS = 5.0
TICK_SECONDS = 60.0
"""A submit that takes longer is gone on with in the next round."""
BOUNDS = Bounds(at_once=8, per_cluster=4)
ALL_READ_EVERY = LATE / 2
"""How often all schedules are read, for those that a replica of the release before has made while both ran: so that no
tick of theirs is missed. All other rounds read what is due."""

type _Stored = tuple[Schedule, int]
"""A schedule and the version of its record."""


class Ticking:
    """Submits what is due, again and again."""

    def __init__(
        self,
        schedules: ScheduleRecords,
        owners: tuple[Directory, UnixUsers],
        renderings: Renderings,
        slurm: SlurmRequests,
        workflows: WorkflowParts,
        desk: SubmitDesk,
    ) -> None:
        self._schedules = schedules
        self._directory, self._unix_users = owners
        self._renderings = renderings
        self._slurm = slurm
        self._desk = desk
        self._workflows = workflows
        self._all_read_at: datetime | None = None
        self.clock: Callable[[], datetime] = now
        """What time it is; tests say it."""

    def sweeper(self) -> Sweeper[_Stored]:
        """Submits all that is due. A schedule that cannot be submitted delays no other."""
        sweep = Sweep("schedules", self._due, self._deal_with, _place, (StoreError, RequestError, RpcFailed))
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, TICK_SECONDS, at_start=True), BOUNDS)

    async def _due(self) -> list[_Stored]:
        at = self.clock()
        if self._all_read_at is None or abs(at - self._all_read_at) >= ALL_READ_EVERY:
            await self._schedules.add_missing_to_index()
            self._all_read_at = at
        return await self._schedules.due(at)

    async def _deal_with(self, stored: _Stored) -> None:
        (schedule, version), at = stored, self.clock()
        tick, latest = schedule.due(at), schedule.latest(at)
        assert latest is not None  # noqa: S101 - only schedules with a tick are dealt with
        done = schedule.after(latest, "missed") if tick is None else await self._submitted(schedule, tick)
        if done is None:
            return
        # A schedule that was deleted in the meantime stays so.
        written = await self._schedules.replace(done, version)
        log.info("schedule_dealt_with", schedule=schedule.id, outcome=done.last_outcome, written=written)

    async def _submitted(self, schedule: Schedule, tick: datetime) -> Schedule | None:
        """The schedule after a tick; None where its outcome is not known yet, so that it is tried again."""
        ref = ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster)
        member = await self._directory.member(schedule.member)
        if member is None or member.disabled or member.deleted or not includes(member.role, "member"):
            return schedule.after(tick, "not submitted: its owner may not submit jobs any more")
        binding = await self._directory.cluster(ref)
        if binding is None:
            return schedule.after(tick, "not submitted: there is no such cluster")
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            return schedule.after(tick, f"not submitted: its owner is no user of the cluster: {there.reason}")
        if await self._still_there(ref, schedule, there.user):
            return schedule.after(tick, "not submitted: what was submitted before has not ended")
        key = schedule.key(tick)
        wanted = Wanted(schedule.params, schedule.inputs, schedule.sbatch_override)
        try:
            prepared = await self._renderings.prepare(
                ref, there.user.name, schedule.template_id, wanted, job_run_id(ref, member.id, key)
            )
            return await self._submit(schedule, tick, member, there.user, prepared)
        except (InFlight, OutcomeUnknown, Unavailable):
            return None
        except (InvalidRequest, Forbidden, NotFound, Conflict, TooLarge, KeyReused, QuotaExceeded) as error:
            return schedule.after(tick, _refused(error.detail, error.hint))
        except RpcFailed as failed:
            if failed.error.kind == "unavailable" or failed.error.may_have_effect:
                return None
            return schedule.after(tick, _refused(failed.error.detail, failed.error.hint))

    async def _submit(
        self, schedule: Schedule, tick: datetime, member: Member, user: SlurmUser, prepared: Prepared
    ) -> Schedule:
        ref, key = ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster), schedule.key(tick)
        if isinstance(prepared.found.definition, AnyWorkflow):
            run_id = run_id_of(ref, member.id, key)
            run = workflow_of(schedule.name, prepared.steps, schedule.confirmed_usd_per_hour)
            await self._workflows.starts.start(AbsentOwner(member, user), ref, run, run_id, digest=key)
            return schedule.after(tick, "submitted", last_run=run_id, last_job=None)
        job = job_of(prepared.steps[0], None, schedule.confirmed_usd_per_hour)
        answer = await self._desk.submit(AbsentOwner(member, user), ref, job, key, key)
        return schedule.after(tick, "submitted", last_job=answer.job_id, last_run=None)

    async def _still_there(self, ref: ClusterRef, schedule: Schedule, user: SlurmUser) -> bool:
        """Whether the job or workflow of the tick before has not ended. Raises RpcFailed where nobody knows."""
        if schedule.last_run is not None:
            stored = await self._workflows.records.read(ref, schedule.last_run)
            if stored is None:
                return False
            # Nobody else reads how a workflow ended, unless its owner looks at it.
            return not (await self._workflows.controller.refreshed(ref, stored.workflow, reader=None, strict=True)).over
        if schedule.last_job is None:
            return False
        try:
            job = await self._slurm.job(ref, Viewer(user=user), schedule.last_job)
        except RpcFailed as failed:
            if failed.error.kind == "not_found":
                return False
            raise
        return job.state not in ENDED


def _refused(detail: str, hint: str) -> str:
    return f"not submitted: {'; '.join(part for part in (detail, hint) if part)}"


def _place(stored: _Stored) -> Place:
    schedule, _ = stored
    return Place(schedule.tenant, schedule.cluster, schedule.id)
