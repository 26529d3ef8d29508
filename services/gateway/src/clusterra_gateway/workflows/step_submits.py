"""Submits the jobs of steps, each once for its key, and has the files of a step staged."""

from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Submit, Submitted

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.jobs.holds import asks_for_hold
from clusterra_gateway.jobs.idempotency import IdempotencyKeys, ScopedKey
from clusterra_gateway.jobs.staged_files import StagingPlan
from clusterra_gateway.jobs.staged_jobs import HeldJobs, StagedJob
from clusterra_gateway.jobs.submit_once import SubmitOnce
from clusterra_gateway.money.quotas.admission import Admission


@dataclass(frozen=True)
class StepSubmit:
    """The submit of a step at one attempt."""

    member: str
    """The id of the run's owner."""
    message: Submit
    key: str
    staging: StagingPlan | None
    allowed: bool
    """Whether the owner may submit jobs still. If not, only a job that there is already is looked for."""


class StepSubmits:
    """The submits of the steps of runs."""

    def __init__(self, slurm: SlurmRequests, keys: IdempotencyKeys, admission: Admission, held: HeldJobs) -> None:
        self._admission = admission
        self._submit_once = SubmitOnce(keys, slurm.submit, reservations=admission.reservations)
        self._held = held

    async def submit(self, ref: ClusterRef, step: StepSubmit) -> Submitted | None:
        """The job of a step. None: its owner may submit no more, and there is none.

        Raises KeyReused, InFlight, OutcomeUnknown, QuotaExceeded, InvalidRequest, Unavailable, RpcFailed, StoreError.
        """
        if step.staging is None:
            return await self._send(ref, step, step.message)
        job = step.message.job
        staged = StagedJob(
            member=step.member,
            user=step.message.user,
            name=job.name,
            key=step.key,
            digest=step.key,
            stays_held=asks_for_hold(step.message.script, job),
        )
        held = step.message.model_copy(update={"job": job.model_copy(update={"hold": True})})
        return await self._held.submit(ref, staged, step.staging, lambda: self._send(ref, step, held))

    async def _send(self, ref: ClusterRef, step: StepSubmit, message: Submit) -> Submitted | None:
        scoped = ScopedKey(ref, step.member, step.key)
        if not step.allowed:
            # A submit from before they lost the right may have made a job, which must not be lost sight of.
            return await self._submit_once.find(scoped, message, step.key)
        prepare = Prepare(user=message.user, script=message.script, job=message.job)
        hold = await self._admission.hold(ref, prepare, scoped.item.pk)
        return await self._submit_once.submit(scoped, message, step.key, hold)
