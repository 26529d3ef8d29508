"""Submits the job of a request: once for an Idempotency-Key, or once for the request without one."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Submit, Submitted
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.idempotency import IdempotencyKeys, ScopedKey
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submit_once import SubmitOnce, unknown_outcome

log = structlog.get_logger()


class Submits:
    """The submits of this gateway, in whatever form a request has them."""

    def __init__(self, slurm: SlurmRequests, idempotency: IdempotencyKeys) -> None:
        self._slurm = slurm
        self._submit_once = SubmitOnce(idempotency, slurm.submit)

    async def submit(
        self, request: web.Request, caller: Caller, ref: ClusterRef, submission: Submission, *, digest: str = ""
    ) -> Submitted:
        """Submit as the caller. Raises KeyReused, InFlight, OutcomeUnknown, RpcFailed, StoreUnavailable.

        `digest` identifies the request where it is not the submission itself.
        """
        key = idempotency_key(request)
        message = Submit(
            user=caller.member.slurm_user,
            email=caller.member.email,
            script=submission.script,
            job=submission.job,
            idempotency_key=key,
        )
        if key is None:
            submitted = await self._submit_without_key(ref, message)
        else:
            scoped_key = ScopedKey(ref, caller.member.id, key)
            submitted = await self._submit_once.submit(scoped_key, message, digest or submission.digest())
        log.info("job_submitted", tenant=ref.tenant, cluster=ref.cluster, user=caller.member.user, job=submitted.job_id)
        return submitted

    async def _submit_without_key(self, ref: ClusterRef, message: Submit) -> Submitted:
        try:
            return await self._slurm.submit(ref, message)
        except RpcFailed as failed:
            if failed.error.may_have_effect:
                raise unknown_outcome(failed.error) from failed
            raise
