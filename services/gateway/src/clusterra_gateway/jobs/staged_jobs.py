"""What other rooms need of staging, which the room `staging` does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId, SlurmUser
from clusterra_contracts.rpc.slurm import Submitted

from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.person import Person
from clusterra_gateway.jobs.holds import asks_for_hold
from clusterra_gateway.jobs.staged_files import JobStaging, StagingPlan
from clusterra_gateway.jobs.submission import Submission
from clusterra_gateway.jobs.submits import SubmittedJob


@dataclass(frozen=True)
class StagedJob:
    """A job whose files are staged: whose it is, and how its submit is found again."""

    member: str
    """The id of its owner."""
    user: SlurmUser
    name: str
    key: str
    """The idempotency key of its submit."""
    digest: str
    """The hash of the request, to tell a repeated request from another one."""
    stays_held: bool

    @classmethod
    def of(cls, who: Person, submission: Submission, key: str, *, digest: str) -> "StagedJob":
        """The job of a submission."""
        return cls(
            member=who.member.id,
            user=who.slurm_user,
            name=submission.job.name,
            key=key,
            digest=digest,
            stays_held=asks_for_hold(submission.script, submission.job),
        )


class StagedJobs(Protocol):
    """Submits jobs whose files are staged, and knows how far that is."""

    async def submit(
        self, request: web.Request, caller: Caller, ref: ClusterRef, submission: Submission, *, digest: str
    ) -> SubmittedJob:
        """Check the files, submit the job, and have them staged. A job without files is submitted as any other.

        Raises RequestError, RpcFailed, StoreError.
        """
        ...

    async def of_job(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> JobStaging | None:
        """The staging of a job; None for a job without one. Raises StoreError.

        `age` is the time since its submit, zero where that is not known.
        """
        ...


class StagingPlans(Protocol):
    """Checks what jobs want staged."""

    async def look_up(self, who: Person, ref: ClusterRef, submission: Submission) -> StagingPlan:
        """Check and look up what is staged. Raises RequestError."""
        ...

    async def refuse_without_right(self, who: Person, ref: ClusterRef) -> None:
        """Raises Conflict where the edge cannot stage files. It may be slow to answer: ask once for many jobs."""
        ...


class HeldJobs(Protocol):
    """Has the files of held jobs staged."""

    async def submit[A: Submitted | None](
        self, ref: ClusterRef, job: StagedJob, plan: StagingPlan, send: Callable[[], Awaitable[A]]
    ) -> A | Submitted:
        """Submit a held job by `send`, once for its key, and have its files staged.

        Raises what `send` raises, KeyReused, TooLarge, Unavailable, StoreError.
        """
        ...
