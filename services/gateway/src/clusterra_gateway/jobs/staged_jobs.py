"""What the routes of jobs need of staging, which the room `staging` does."""

from typing import Protocol

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId

from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.jobs.staged_files import JobStaging
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submits import SubmittedJob


class StagedJobs(Protocol):
    """Submits jobs whose files are staged, and knows how far that is."""

    async def submit(
        self, request: web.Request, caller: Caller, ref: ClusterRef, submission: Submission, *, digest: str
    ) -> SubmittedJob:
        """Check the files, submit the job, and have them staged. Raises RequestError, RpcFailed, StoreError."""
        ...

    async def of_job(self, ref: ClusterRef, job_id: JobId) -> JobStaging | None:
        """The staging of a job; None for a job without one. Raises StoreError."""
        ...
