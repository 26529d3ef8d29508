"""Submits the job of a request: once for an Idempotency-Key, or once for the request without one."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Submit, Submitted
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.idempotency import IdempotencyKeys, ScopedKey
from clusterra_gateway.jobs.submission import AnyScript, components_of
from clusterra_gateway.jobs.submit_once import SubmitOnce, unknown_outcome
from clusterra_gateway.money.quotas.admission import Admission, QuotaLeft, over_limit
from clusterra_gateway.money.quotas.reservations import Hold

log = structlog.get_logger()


class SubmittedJob(Submitted):
    """Slurm accepted the job. `quotas` has what is left of each quota that counts it."""

    quotas: tuple[QuotaLeft, ...] = ()


class Submits:
    """The submits of this gateway, in whatever form a request has them."""

    def __init__(self, slurm: SlurmRequests, idempotency: IdempotencyKeys, admission: Admission) -> None:
        self._slurm = slurm
        self._admission = admission
        self._submit_once = SubmitOnce(idempotency, slurm.submit, reservations=admission.reservations)

    async def submit(
        self,
        request: web.Request,
        caller: Caller,
        ref: ClusterRef,
        submission: AnyScript,
        *,
        digest: str = "",
        own_key: str | None = None,
    ) -> SubmittedJob:
        """Submit as the caller. `digest` identifies the request where it is not the submission itself.

        `own_key` is the key of a request that has no Idempotency-Key, and whose job has to be found again.

        Raises KeyReused, InFlight, OutcomeUnknown, QuotaExceeded, InvalidRequest, RpcFailed, StoreUnavailable.
        """
        key = idempotency_key(request) or own_key
        message = Submit(
            user=caller.slurm_user,
            email=caller.member.email,
            script=submission.script,
            job=submission.jobs[0].description,
            further=submission.jobs[0].further,
            components=components_of(submission),
            idempotency_key=key,
        )
        prepare = Prepare(
            user=message.user,
            script=message.script,
            job=message.job,
            further=message.further,
            components=message.components,
        )
        if key is None:
            hold = await self._admission.hold(ref, prepare, None)
            submitted = await self._submit_without_key(ref, message, hold)
        else:
            scoped_key = ScopedKey(ref, caller.member.id, key)
            hold = await self._admission.hold(ref, prepare, scoped_key.item.pk)
            submitted = await self._submit_once.submit(scoped_key, message, digest or submission.digest(), hold)
        left = () if hold is None else await self._left(hold)
        log.info("job_submitted", tenant=ref.tenant, cluster=ref.cluster, user=message.user.name, job=submitted.job_id)
        warnings = (*submitted.warnings, *over_limit(left))
        return SubmittedJob.model_validate({**submitted.model_dump(), "warnings": warnings, "quotas": left})

    async def _left(self, hold: Hold) -> tuple[QuotaLeft, ...]:
        """What is left of the quotas; nothing while the store does not answer, because Slurm has the job."""
        try:
            return await self._admission.left(hold)
        except StoreError as error:
            log.warning("quotas_left_not_read", reason=str(error))
            return ()

    async def _submit_without_key(self, ref: ClusterRef, message: Submit, hold: Hold | None) -> Submitted:
        if hold is None:
            return await self._submit_plainly(ref, message)
        reservations = self._admission.reservations
        await reservations.make(hold)
        try:
            submitted = await self._submit_plainly(ref, message)
        except RpcFailed:
            await reservations.settle(hold.reservation, 0)
            raise
        await reservations.book(hold, submitted.job_id)
        return submitted

    async def _submit_plainly(self, ref: ClusterRef, message: Submit) -> Submitted:
        try:
            return await self._slurm.submit(ref, message)
        except RpcFailed as failed:
            if failed.error.may_have_effect:
                raise unknown_outcome(failed.error) from failed
            raise
