"""Submits jobs whose files are staged.

The staging is stored before the job is submitted, so that no job is held that nobody releases: a gateway that dies in
between leaves a staging without a job, and the sweep looks for the job by its idempotency key. A submit without a key
gets one for this.
"""

import hashlib
import secrets

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import ValidationError

from clusterra_gateway.http.errors import (
    InFlight,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    RequestError,
    Unavailable,
)
from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.staged_files import JobStaging
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submits import Submits, SubmittedJob
from clusterra_gateway.staging.planning import Planning
from clusterra_gateway.staging.staging import Staging, view
from clusterra_gateway.staging.staging_records import StagingRecords, Stored

_ATTEMPTS = 10


class StagedSubmits:
    """The submits of jobs with staged files, and how far their staging is."""

    def __init__(self, submits: Submits, planning: Planning, records: StagingRecords, registry: Registry) -> None:
        self._submits = submits
        self._planning = planning
        self._records = records
        self._registry = registry

    async def submit(
        self, request: web.Request, caller: Caller, ref: ClusterRef, submission: Submission, *, digest: str
    ) -> SubmittedJob:
        """Check the files, submit the job, and have them staged. Raises RequestError, RpcFailed, StoreError."""
        key = idempotency_key(request) or f"staged-{secrets.token_hex(16)}"
        staging_id = hashlib.sha256(f"{ref.key}#{caller.member.id}#{key}".encode()).hexdigest()[:32]
        stored = await self._records.read(ref, staging_id)
        if stored is not None and stored.staging.over and stored.staging.job_id is None:
            # An earlier request with this key made no job, and was given up.
            await self._records.remove(ref, staging_id)
            stored = None
        if stored is None:
            stored = await self._created(caller, ref, submission, staging_id, (key, digest))
        if stored.staging.digest != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new job"
            )
        if stored.staging.job_id is not None:
            # Its key may have ended, and the job would be submitted again.
            known = stored.staging
            return SubmittedJob(job_id=stored.staging.job_id, accepted_at=known.created_at, repeated=True)
        held = submission.model_copy(update={"job": submission.job.model_copy(update={"hold": True})})
        try:
            submitted = await self._submits.submit(request, caller, ref, held, digest=digest, own_key=key)
        except (InFlight, OutcomeUnknown):
            raise
        except RequestError:
            await self._records.remove(ref, staging_id)
            raise
        except RpcFailed as failed:
            if not failed.error.may_have_effect:
                await self._records.remove(ref, staging_id)
            raise
        if await named(self._records, ref, staging_id, submitted.job_id) is None:
            # The same request, sent twice at a time, failed the other time and removed it.
            await self._records.create(ref, stored.staging)
            await named(self._records, ref, staging_id, submitted.job_id)
        return submitted

    async def of_job(self, ref: ClusterRef, job_id: JobId) -> JobStaging | None:
        """The staging of a job; None for a job without one. Raises StoreError."""
        try:
            staging = await self._records.of_job(ref, job_id)
        except ValidationError:
            # Of a newer release.
            return None
        return None if staging is None else view(staging)

    async def _created(
        self, caller: Caller, ref: ClusterRef, submission: Submission, staging_id: str, request: tuple[str, str]
    ) -> Stored:
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        plan = await self._planning.plan(caller, ref, submission, binding.shared_path)
        key, digest = request
        at = now()
        staging = Staging(
            id=staging_id,
            member=caller.member.id,
            user=caller.slurm_user,
            job_name=submission.job.name,
            key=key,
            digest=digest,
            created_at=at,
            folder=plan.folder,
            inputs=plan.inputs,
            outputs=plan.outputs,
            stays_held=bool(submission.job.hold),
            progressed_at=at,
        )
        await self._records.create(ref, staging)
        stored = await self._records.read(ref, staging_id)
        if stored is None:
            raise Unavailable("what is to be staged could not be stored", hint="send the request again")
        return stored


async def named(records: StagingRecords, ref: ClusterRef, staging_id: str, job_id: JobId) -> Stored | None:
    """Note the job of a staging, and let its first phase begin. Raises StoreError."""
    for _ in range(_ATTEMPTS):
        stored = await records.read(ref, staging_id)
        if stored is None or stored.staging.job_id is not None:
            return stored
        changed = stored.staging.progressed(now(), job_id=job_id, phase="staging_in", claimed_by="")
        if (written := await records.replace(ref, stored, changed)) is not None:
            return written
    raise Unavailable("others are changing this staging", hint="try again in a moment")
