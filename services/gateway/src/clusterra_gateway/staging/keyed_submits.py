"""Submits jobs without a request, such as those of schedules: once for a key, and with their files staged."""

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Submit, Submitted

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.identity.person import Person
from clusterra_gateway.jobs.idempotency import IdempotencyKeys, ScopedKey
from clusterra_gateway.jobs.staged_jobs import StagedJob
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submit_once import SubmitOnce
from clusterra_gateway.money.quotas.admission import Admission
from clusterra_gateway.staging.held_submits import HeldSubmits
from clusterra_gateway.staging.planning import Planning


class KeyedSubmits:
    """The submits of jobs by their keys."""

    def __init__(
        self,
        slurm: SlurmRequests,
        keys: IdempotencyKeys,
        admission: Admission,
        planning: Planning,
        held: HeldSubmits,
    ) -> None:
        self._admission = admission
        self._submit_once = SubmitOnce(keys, slurm.submit, reservations=admission.reservations)
        self._planning = planning
        self._held = held

    async def submit(self, who: Person, ref: ClusterRef, submission: Submission, key: str) -> Submitted:
        """Submit a job as its owner, unless there is one of this key. Raises RequestError, RpcFailed, StoreError."""
        if not submission.staged:
            return await self._send(who, ref, submission, key)
        known = await self._held.known(ref, who.member.id, key)
        plan = await self._planning.plan(who, ref, submission) if known is None else known.plan
        job = StagedJob.of(who, submission, key, digest=key)
        return await self._held.submit(ref, job, plan, lambda: self._send(who, ref, submission.held, key))

    async def _send(self, who: Person, ref: ClusterRef, submission: Submission, key: str) -> Submitted:
        message = Submit(
            user=who.slurm_user,
            email=who.member.email,
            script=submission.script,
            job=submission.job.description,
            further=submission.job.further,
            idempotency_key=key,
        )
        scoped = ScopedKey(ref, who.member.id, key)
        prepare = Prepare(user=message.user, script=message.script, job=message.job, further=message.further)
        hold = await self._admission.hold(ref, prepare, scoped.item.pk)
        return await self._submit_once.submit(scoped, message, key, hold)
