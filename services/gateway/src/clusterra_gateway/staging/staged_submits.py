"""Submits the jobs of requests: those with staged files held, until these are there, and any other at once."""

import secrets
from datetime import timedelta

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId
from pydantic import ValidationError

from clusterra_gateway.idempotency.key import idempotency_key
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.staged_files import JobStaging
from clusterra_gateway.jobs.staged_jobs import StagedJob
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submits import Submits, SubmittedJob
from clusterra_gateway.staging.held_submits import HeldSubmits, key_reused
from clusterra_gateway.staging.jobs_without_staging import JobsWithoutStaging
from clusterra_gateway.staging.planning import Planning
from clusterra_gateway.staging.staging import view
from clusterra_gateway.staging.staging_records import StagingRecords


class StagedSubmits:
    """The submits of requests whose jobs may have staged files, and how far their staging is."""

    def __init__(self, submits: Submits, planning: Planning, records: StagingRecords) -> None:
        self._submits = submits
        self._planning = planning
        self._records = records
        self._held = HeldSubmits(records)
        self._without = JobsWithoutStaging()

    async def submit(
        self, request: web.Request, caller: Caller, ref: ClusterRef, submission: Submission, *, digest: str
    ) -> SubmittedJob:
        """Check the files, submit the job, and have them staged. A job without files is submitted as any other.

        A submit without an Idempotency-Key gets one for this. Raises RequestError, RpcFailed, StoreError.
        """
        if not submission.staged:
            return await self._submits.submit(request, caller, ref, submission, digest=digest)
        key = idempotency_key(request) or f"staged-{secrets.token_hex(16)}"
        known = await self._held.known(ref, caller.member.id, key)
        if known is not None and known.digest != digest:
            raise key_reused()
        plan = await self._planning.plan(caller, ref, submission) if known is None else known.plan
        held = submission.held
        job = StagedJob.of(caller, submission, key, digest=digest)

        async def send() -> SubmittedJob:
            return await self._submits.submit(request, caller, ref, held, digest=digest, own_key=key)

        submitted = await self._held.submit(ref, job, plan, send)
        if isinstance(submitted, SubmittedJob):
            return submitted
        return SubmittedJob.model_validate(submitted.model_dump())

    async def check(self, caller: Caller, ref: ClusterRef, submission: Submission) -> None:
        """Check what will be submitted later. Its inputs may come until then. Raises RequestError, RpcFailed."""
        if submission.staged:
            await self._planning.check(caller, ref, submission)

    async def of_job(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> JobStaging | None:
        """The staging of a job, for a task that of its array; None for a job without one. Raises StoreError."""
        submitted = job_id.partition("_")[0]
        if (ref, submitted) in self._without:
            return None
        try:
            staging = await self._records.of_job(ref, submitted)
        except ValidationError:
            # Of a newer release.
            return None
        if staging is None:
            self._without.add(ref, submitted, age=age)
            return None
        return view(staging)
