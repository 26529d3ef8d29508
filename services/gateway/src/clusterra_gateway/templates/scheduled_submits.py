"""Submits the template of a schedule as its owner: at a tick, or because somebody wants it now."""

from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_templates.definitions import AnyWorkflow
from clusterra_templates.rendering import Wanted

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import includes
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, NotFound
from clusterra_gateway.identity.access.unix_users import AbsentOwner, UnixUsers
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import job_of, job_run_id, workflow_of
from clusterra_gateway.templates.rendering import Prepared, Renderings
from clusterra_gateway.templates.schedule import Outcome, Schedule
from clusterra_gateway.workflows.room import WorkflowParts
from clusterra_gateway.workflows.start import run_id_of


class ScheduledSubmits:
    """Submits what schedules name, once for each key."""

    def __init__(
        self,
        owners: tuple[Directory, UnixUsers],
        renderings: Renderings,
        slurm: SlurmRequests,
        workflows: WorkflowParts,
        desk: SubmitDesk,
    ) -> None:
        self._directory, self._unix_users = owners
        self._renderings = renderings
        self._slurm = slurm
        self._workflows = workflows
        self._desk = desk

    async def submit(self, schedule: Schedule, key: str) -> Outcome:
        """Submit the template as the owner of the schedule, once for the key.

        Raises Conflict while what was submitted before has not ended, Forbidden for an owner who may not submit, and
        what renders templates and what `SubmitDesk.submit` raises.
        """
        ref = ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster)
        member = await self._directory.member(schedule.member)
        if member is None or member.disabled or member.deleted or not includes(member.role, "member"):
            raise Forbidden("its owner may not submit jobs any more")
        binding = await self._directory.cluster(ref)
        if binding is None:
            raise NotFound("there is no such cluster")
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            raise Forbidden(f"its owner is no user of the cluster: {there.reason}")
        if await self._still_there(ref, schedule, there.user):
            raise Conflict("what was submitted before has not ended")
        wanted = Wanted(schedule.params, schedule.inputs, schedule.sbatch_override)
        prepared = await self._renderings.prepare(
            ref, there.user.name, schedule.template_id, wanted, job_run_id(ref, member.id, key)
        )
        return await self._send(schedule, key, member, there.user, prepared)

    async def _send(self, schedule: Schedule, key: str, member: Member, user: SlurmUser, prepared: Prepared) -> Outcome:
        ref = ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster)
        if isinstance(prepared.found.definition, AnyWorkflow):
            run_id = run_id_of(ref, member.id, key)
            run = workflow_of(schedule.name, prepared.steps, schedule.confirmed_usd_per_hour)
            await self._workflows.starts.start(AbsentOwner(member, user), ref, run, run_id, digest=key)
            return Outcome("submitted", run=run_id)
        job = job_of(prepared.steps[0], None, schedule.confirmed_usd_per_hour)
        answer = await self._desk.submit(AbsentOwner(member, user), ref, job, key, key)
        return Outcome("submitted", job=answer.job_id)

    async def _still_there(self, ref: ClusterRef, schedule: Schedule, user: SlurmUser) -> bool:
        """Whether the job or workflow that was submitted before has not ended. Raises RpcFailed where nobody knows."""
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
