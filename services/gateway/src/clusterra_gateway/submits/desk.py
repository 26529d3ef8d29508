"""Submits every job of this gateway: those of requests, schedules, workflows and interactive sessions.

One submit takes these steps:

1. The files of a job that has some are looked up, and their staging is stored (`held_submits`).
2. The cost of the job is projected, if a quota counts it or a policy asks for a confirmation
   (`money.quotas.admission`).
3. The key is claimed and the cost is reserved in one write, and the job is sent (`submit_once`).
"""

import secrets

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Submit, Submitted
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.idempotency.key import ScopedKey
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.money.quotas.admission import Admission, ExpectedCost, QuotaLeft, over_limit
from clusterra_gateway.money.quotas.reservations import PendingReservation
from clusterra_gateway.submission.models import (
    AnyJob,
    HeterogeneousSubmission,
    OneJob,
    Submission,
    WorkflowJobSubmission,
    prepare_message,
    submit_message,
)
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submission.staged_files import StagingPlan
from clusterra_gateway.submits.held_submits import HeldSubmits, StagedJob, key_reused
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.submits.submit_once import SubmitOnce, unknown_outcome

log = structlog.get_logger()


class SubmittedJob(Submitted):
    """Slurm accepted the job. `quotas` has what is left of each quota that counts it."""

    quotas: tuple[QuotaLeft, ...] = ()
    expected: ExpectedCost | None = None
    """What it is expected to cost; null where no quota counts it and the cluster asks for no confirmation of costs."""


class SubmitDesk:
    """Submits jobs. A process has one desk, so that all requests with one key share the lookups of its job."""

    def __init__(
        self, slurm: SlurmRequests, keys: SubmitKeys, admission: Admission, planning: Planning, held: HeldSubmits
    ) -> None:
        self._slurm = slurm
        self._admission = admission
        self._planning = planning
        self._held = held
        self._once = SubmitOnce(keys, slurm.submit, reservations=admission.reservations)

    async def submit(
        self, who: Person, ref: ClusterRef, submission: AnyJob, key: str | None, digest: str
    ) -> SubmittedJob:
        """Submit a job as this person: once for the key, or once for this call without one.

        `digest` tells requests with one key apart. A job with staged files is held until they are copied. Without a key
        it gets one, by which it is found after a crash.

        Raises KeyReused, InFlight, OutcomeUnknown, QuotaExceeded, InvalidRequest, Forbidden, NotFound, Conflict,
        TooLarge, Unavailable, RpcFailed, StoreError.
        """
        if isinstance(submission, HeterogeneousSubmission) or not submission.staged:
            return await self._send(who, ref, submission, key, digest)
        key = key or f"staged-{secrets.token_hex(16)}"
        plan = await self._plan(who, ref, submission, key, digest)
        job = StagedJob.of(who, submission, key, digest=digest)
        submitted = await self._held.submit(ref, job, plan, lambda: self._send(who, ref, submission.held, key, digest))
        return submitted if isinstance(submitted, SubmittedJob) else SubmittedJob(**submitted.model_dump())

    async def find(self, who: Person, ref: ClusterRef, job: OneJob, key: str, digest: str) -> Submitted | None:
        """Returns the job of an earlier submit, and submits nothing.

        None: no job exists, and no earlier submit can make one.

        Raises KeyReused, InFlight, OutcomeUnknown, TooLarge, Unavailable, StoreError.
        """

        async def find() -> Submitted | None:
            scoped = ScopedKey(ref, who.member.id, key)
            return await self._once.find(scoped, submit_message(who, job, key), digest)

        plan = job.plan if isinstance(job, WorkflowJobSubmission) else None
        if plan is None and job.staged:
            known = await self._held.known(ref, who.member.id, key)
            plan = None if known is None else known.plan
        if plan is None:
            return await find()
        return await self._held.submit(ref, StagedJob.of(who, job, key, digest=digest), plan, find)

    async def check(self, who: Person, ref: ClusterRef, submission: Submission) -> None:
        """Check what will be submitted later. Its inputs may come until then. Raises RequestError, RpcFailed."""
        if submission.staged:
            await self._planning.check(who, ref, submission)

    async def _plan(self, who: Person, ref: ClusterRef, submission: OneJob, key: str, digest: str) -> StagingPlan:
        if isinstance(submission, WorkflowJobSubmission):
            assert submission.plan is not None  # noqa: S101 - only staged jobs are planned
            return submission.plan
        known = await self._held.known(ref, who.member.id, key)
        if known is None:
            return await self._planning.plan(who, ref, submission)
        if known.digest != digest:
            raise key_reused()
        return known.plan

    async def _send(
        self, who: Person, ref: ClusterRef, submission: AnyJob, key: str | None, digest: str
    ) -> SubmittedJob:
        message = submit_message(who, submission, key)
        scoped = None if key is None else ScopedKey(ref, who.member.id, key)
        identity = None if scoped is None else scoped.identity
        confirmed = submission.jobs[0].confirmed_usd_per_hour
        pending, expected = await self._admission.admitted(
            ref, prepare_message(message.user, submission, message.email), identity, confirmed
        )
        if scoped is None:
            submitted = await self._send_without_key(ref, message, pending)
        else:
            submitted = await self._once.submit(scoped, message, digest, pending)
        left = () if pending is None else await self._left(pending)
        log.info("job_submitted", tenant=ref.tenant, cluster=ref.cluster, user=message.user.name, job=submitted.job_id)
        warnings = (*submitted.warnings, *over_limit(left))
        return SubmittedJob.model_validate(
            {**submitted.model_dump(), "warnings": warnings, "quotas": left, "expected": expected}
        )

    async def _left(self, pending: PendingReservation) -> tuple[QuotaLeft, ...]:
        """What is left of the quotas; nothing while the store does not answer, because Slurm has the job."""
        try:
            return await self._admission.left(pending)
        except StoreError as error:
            log.warning("quotas_left_not_read", reason=str(error))
            return ()

    async def _send_without_key(
        self, ref: ClusterRef, message: Submit, pending: PendingReservation | None
    ) -> Submitted:
        reservations = self._admission.reservations
        if pending is not None:
            await reservations.make(pending)
        try:
            submitted = await self._slurm.submit(ref, message)
        except RpcFailed as failed:
            if failed.error.may_have_effect:
                raise unknown_outcome(failed.error) from failed
            if pending is not None:
                await reservations.settle(pending.reservation, 0)
            raise
        if pending is not None:
            await reservations.book(pending, submitted.job_id)
        return submitted
