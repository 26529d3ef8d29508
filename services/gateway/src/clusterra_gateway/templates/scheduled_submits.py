"""Submits the template of a schedule as its owner: at a tick, or because somebody wants it now.

Before a submit its key is written to the schedule, so that no other one begins beside it. Whoever finds the key of a
submit that was given up looks for what it has made, and notes that.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.optimistic_write import Overtaken, write_optimistically
from clusterra_templates.definitions import AnyWorkflow
from clusterra_templates.rendering import Wanted

from clusterra_gateway.accounts.directory import Directory
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
    TooLarge,
)
from clusterra_gateway.idempotency.once import IN_FLIGHT_SECONDS
from clusterra_gateway.identity.access.unix_users import AbsentOwner, UnixUsers
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import job_of, job_run_id, workflow_of
from clusterra_gateway.templates.rendering import Prepared, Renderings
from clusterra_gateway.templates.schedule import Outcome, Schedule
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.workflows.room import WorkflowParts
from clusterra_gateway.workflows.start import run_id_of

log = structlog.get_logger()

GIVEN_UP_AFTER = timedelta(seconds=2 * IN_FLIGHT_SECONDS)
"""Everybody who worked on a submit that began this long ago has given it up."""
REFUSED = (InvalidRequest, Forbidden, NotFound, Conflict, TooLarge, KeyReused, QuotaExceeded)
"""Errors of a submit that has certainly made nothing."""

type Noting = Callable[[Schedule, Outcome], Schedule]
"""The schedule with what became of a submit."""


def is_refusal(error: Exception) -> bool:
    """Whether a submit that failed has certainly made nothing, and would fail again."""
    if isinstance(error, RpcFailed):
        return error.error.kind != "unavailable" and not error.error.may_have_effect
    return isinstance(error, REFUSED)


class ScheduledSubmits:
    """Submits what schedules name, once for each key, and one after another for each schedule."""

    def __init__(
        self,
        records: ScheduleRecords,
        owners: tuple[Directory, UnixUsers],
        renderings: Renderings,
        slurm: SlurmRequests,
        workflows: WorkflowParts,
        desk: SubmitDesk,
    ) -> None:
        self._records = records
        self._directory, self._unix_users = owners
        self._renderings = renderings
        self._slurm = slurm
        self._workflows = workflows
        self._desk = desk

    async def submit(self, stored: tuple[Schedule, int], key: str, at: datetime, note: Noting) -> Schedule:
        """Submit the template as the owner of the schedule, once for the key, and store what `note` makes of it.

        `stored` is the schedule with the version of its item. Raises Overtaken where it was changed since, Conflict
        while the job or run that it submitted last has not ended, InFlight while another submit goes on, Forbidden for
        an owner who may not submit, NotFound without the cluster, RpcFailed where the state of the last job is not
        known, and what `Renderings.prepare`, `SubmitDesk.submit` and `WorkflowStarts.start` raise. After an error the
        schedule keeps the key until `note` or `release`, or until the next submit finds what it has made.
        """
        schedule, version = stored
        if schedule.submitting not in ("", key):
            await self._settle(schedule)
            raise Overtaken
        if not schedule.submitting:
            owner = await self._owner(schedule)
            if await self._still_there(schedule, owner.slurm_user):
                raise Conflict("the job or run that it submitted last has not ended")
            schedule = schedule.claimed(key, at)
            if not await self._records.replace(schedule, version):
                raise Overtaken
        return await self.note(schedule, key, await self._sent(schedule, key), note)

    async def release(self, schedule: Schedule, key: str) -> None:
        """Take the key of a submit that was refused from the schedule."""

        async def attempt() -> None:
            found = await self._records.read(schedule.tenant, schedule.id)
            if found is None or found[0].submitting != key:
                return
            if not await self._records.replace(found[0].released(), found[1]):
                raise Overtaken

        await write_optimistically(attempt)

    async def _settle(self, schedule: Schedule) -> None:
        """Note what became of a submit that was not noted, and submit nothing. Raises InFlight while it goes on."""
        key = schedule.submitting
        try:
            outcome = await self._found(schedule, key)
        except (OutcomeUnknown, *REFUSED) as error:
            log.info("scheduled_submit_not_found", schedule=schedule.id, reason=error.detail)
            outcome = None
        if outcome is None:
            return await self.release(schedule, key)
        at = schedule.submitting_since or now()
        await self.note(schedule, key, outcome, lambda current, made: current.noting(at, made))
        return None

    async def note(self, schedule: Schedule, key: str, outcome: Outcome, note: Noting) -> Schedule:
        """Store what became of a submit in the schedule as it is now. One that was deleted meanwhile stays so."""

        async def attempt() -> Schedule:
            found = await self._records.read(schedule.tenant, schedule.id)
            if found is None:
                return note(schedule, outcome)
            current, version = found
            if current.submitting not in ("", key):
                return current  # somebody else has noted it
            noted = note(current, outcome).released(key if outcome.submitted else None)
            if not await self._records.replace(noted, version):
                raise Overtaken
            return noted

        return await write_optimistically(attempt)

    async def _owner(self, schedule: Schedule) -> AbsentOwner:
        """The owner of a schedule, who may submit. Raises Forbidden, NotFound."""
        ref = _cluster_of(schedule)
        member = await self._directory.member(schedule.member)
        if member is None or member.disabled or member.deleted or not includes(member.role, "member"):
            raise Forbidden("its owner may not submit jobs any more")
        binding = await self._directory.cluster(ref)
        if binding is None:
            raise NotFound("there is no such cluster")
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            raise Forbidden(f"its owner has no user on the cluster: {there.reason}")
        return AbsentOwner(member, there.user)

    async def _prepared(self, schedule: Schedule, key: str) -> tuple[AbsentOwner, Prepared]:
        """What a submit by a key submits, and as whom."""
        owner, ref = await self._owner(schedule), _cluster_of(schedule)
        wanted = Wanted(schedule.params, schedule.inputs, schedule.sbatch_override)
        template, run_id = schedule.template_id, job_run_id(ref, owner.member.id, key)
        return owner, await self._renderings.prepare(ref, owner.slurm_user.name, template, wanted, run_id)

    async def _sent(self, schedule: Schedule, key: str) -> Outcome:
        ref, (owner, prepared) = _cluster_of(schedule), await self._prepared(schedule, key)
        if isinstance(prepared.found.definition, AnyWorkflow):
            run_id = run_id_of(ref, owner.member.id, key)
            run = workflow_of(schedule.name, prepared.steps, schedule.confirmed_usd_per_hour)
            await self._workflows.starts.start(owner, ref, run, run_id, digest=key)
            return Outcome("submitted", run=run_id)
        job = job_of(prepared.steps[0], None, schedule.confirmed_usd_per_hour)
        answer = await self._desk.submit(owner, ref, job, key, key)
        return Outcome("submitted", job=answer.job_id)

    async def _found(self, schedule: Schedule, key: str) -> Outcome | None:
        """What an earlier submit by a key has made; None for nothing. Raises InFlight, OutcomeUnknown."""
        ref, (owner, prepared) = _cluster_of(schedule), await self._prepared(schedule, key)
        if isinstance(prepared.found.definition, AnyWorkflow):
            run_id = run_id_of(ref, owner.member.id, key)
            if await self._workflows.records.read(ref, run_id) is not None:
                return Outcome("submitted", run=run_id)
            # Of a job, the look takes the key, so that nobody submits by it any more. A run has no such key.
            if schedule.submitting_since is not None and now() - schedule.submitting_since < GIVEN_UP_AFTER:
                raise InFlight("this schedule is being submitted", hint="try again in a moment", retry_after_seconds=5)
            return None
        job = job_of(prepared.steps[0], None, schedule.confirmed_usd_per_hour)
        found = await self._desk.find(owner, ref, job, key, key)
        return None if found is None else Outcome("submitted", job=found.job_id)

    async def _still_there(self, schedule: Schedule, user: SlurmUser) -> bool:
        """Whether the job or workflow that was submitted before has not ended. Raises RpcFailed where nobody knows."""
        ref = _cluster_of(schedule)
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


def _cluster_of(schedule: Schedule) -> ClusterRef:
    return ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster)
