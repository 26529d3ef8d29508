"""Advances workflows: submits and cancels their jobs, and reads the jobs' states from Slurm.

Any gateway may advance any workflow, several gateways at the same time too. The idempotency key of a job names the
workflow, the job and its attempt. So Slurm has one job, however many gateways submit it and wherever one of them dies.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from weakref import WeakValueDictionary

import structlog
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm import Submitted, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import includes
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import (
    InFlight,
    InvalidRequest,
    KeyReused,
    OutcomeUnknown,
    QuotaExceeded,
    Unavailable,
)
from clusterra_gateway.identity.access.unix_users import AbsentOwner, UnixUsers
from clusterra_gateway.submission.models import JobToSubmit, WorkflowJobSubmission
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.workflow import MAX_JOBS, Workflow
from clusterra_gateway.workflows.workflow_records import StoredWorkflow, WorkflowRecords

log = structlog.get_logger()

MAX_MOVES = 4 * MAX_JOBS
READS_AT_A_TIME = 4
"""Number of jobs of a workflow that are read at a time, so that a large workflow does not delay other requests."""
REFRESHED_AT_A_TIME = 8
READS_OF_A_PERSON = 32
"""Number of jobs that are read at a time for all requests of one person, as many as for one list: so that many of them
do not delay other people's requests."""
LIST_SECONDS = 5.0
"""How long a list waits for the present states of its workflows."""
OLD_JOB = timedelta(minutes=1)
"""A job that was submitted this long ago may have ended. Its state is read before another job depends on it."""


@dataclass(frozen=True)
class WorkflowController:
    """Advances and refreshes workflows. Every method may raise StoreUnavailable and Unavailable."""

    records: WorkflowRecords
    directory: Directory
    unix_users: UnixUsers
    slurm: SlurmRequests
    desk: SubmitDesk
    _reads: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """By the id of the member who reads."""

    async def advance(self, ref: ClusterRef, run_id: str) -> Workflow | None:
        """Makes all moves that are possible now, and returns the workflow; None if it does not exist.

        Ends early if Slurm does not answer: call it again later.
        """
        workflow = None
        for _ in range(MAX_MOVES):
            stored = await self._change(ref, run_id, lambda workflow: workflow)
            if stored is None:
                await self.records.finish(ref, run_id)
                return None
            workflow = stored.workflow
            move = transitions.next_move(workflow)
            if move is None or not await self._made(ref, workflow, move):
                break
        return workflow

    async def refreshed(
        self, ref: ClusterRef, workflow: Workflow, *, reader: str | None, strict: bool = False
    ) -> Workflow:
        """Reads the states of the workflow's jobs from Slurm, and stores them.

        `reader`: the id of the member who asks, or None where nobody does. Jobs that cannot be read keep theirs; with
        `strict`, they raise RpcFailed. Jobs that wait for others are not read, so a long workflow costs one
        read for each job that may run.
        """
        read = set[str]()
        while jobs := [job_id for job_id in transitions.worth_reading(workflow) if job_id not in read]:
            workflow = await self._observe(ref, workflow, jobs, reader=reader, strict=strict)
            read.update(jobs)
        return workflow

    async def all_refreshed(
        self, ref: ClusterRef, workflows: tuple[Workflow, ...], *, reader: str
    ) -> tuple[Workflow, ...]:
        """As `refreshed`, for a list. Workflows that take longer than `LIST_SECONDS` keep their states."""
        turns, until = asyncio.Semaphore(REFRESHED_AT_A_TIME), asyncio.get_running_loop().time() + LIST_SECONDS

        async def refreshed(workflow: Workflow) -> Workflow:
            with suppress(TimeoutError, Unavailable):
                async with asyncio.timeout_at(until), turns:
                    return await self.refreshed(ref, workflow, reader=reader)
            return workflow

        return tuple(await asyncio.gather(*map(refreshed, workflows)))

    async def _made(self, ref: ClusterRef, workflow: Workflow, move: transitions.Move) -> bool:
        """Makes a move. Returns False if its outcome is not known yet."""
        match move.kind:
            case "intend":
                if not await self._may_submit(ref, workflow, await self.directory.member(workflow.member)):
                    await self._change(ref, workflow.id, transitions.cancelled)
                    return True
                at, attempt = now(), workflow.steps[move.index].attempt
                await self._change_job(
                    ref, workflow, move.index, attempt, partial(transitions.intended, index=move.index, at=at)
                )
                return True
            case "submit":
                return await self._submit(ref, workflow, move.index)
            case "cancel":
                return await self._cancel(ref, workflow, move.index)

    async def _submit(self, ref: ClusterRef, workflow: Workflow, index: int) -> bool:
        job = workflow.steps[index]
        old = [
            each.job_id
            for each in transitions.parents(workflow, job)
            if each.state == "submitted" and each.job_id and each.submitted_at and now() - each.submitted_at > OLD_JOB
        ]
        workflow = await self._observe(ref, workflow, old)
        spec = await self.records.spec(ref, workflow.id, index)
        member = await self.directory.member(workflow.member)
        if spec is None or member is None:
            # The tenant is being deleted: the records of its people go after those of its clusters.
            return False
        owner, key = AbsentOwner(member, workflow.user), transitions.submit_key(workflow, index)
        fields = JobToSubmit.model_validate(
            {
                **spec.job.model_dump(),
                **spec.further.model_dump(),
                "confirmed_usd_per_hour": spec.confirmed_usd_per_hour,
                "dependency": transitions.dependency(workflow, index),
            }
        )
        submission = WorkflowJobSubmission(spec.script, fields, spec.staging, spec.template)
        # An earlier submit of a member who has lost the right may have made a job: find it, so that it is tracked.
        send = self.desk.submit if await self._may_submit(ref, workflow, member) else self.desk.find
        change: transitions.Change
        try:
            answer = await send(owner, ref, submission, key, key)
        except (InFlight, OutcomeUnknown, KeyReused) as unknown:
            log.warning("run_step_not_answered", run_id=workflow.id, step=job.step_id, reason=unknown.detail)
            return False
        except (QuotaExceeded, InvalidRequest) as refused:
            change = partial(transitions.rejected, index=index, reason=f"{refused.detail} {refused.hint}".strip())
        except RpcFailed as failed:
            if failed.error.kind == "unavailable" or failed.error.may_have_effect:
                log.warning("run_step_not_submitted", run_id=workflow.id, step=job.step_id, reason=failed.error.detail)
                return False
            reason = " ".join(part for part in (failed.error.detail, failed.error.hint) if part)
            change = partial(transitions.rejected, index=index, reason=reason)
        else:
            change = _outcome(workflow, index, answer)
        await self._change_job(ref, workflow, index, job.attempt, change)
        return True

    async def _cancel(self, ref: ClusterRef, workflow: Workflow, index: int) -> bool:
        job = workflow.steps[index]
        assert job.job_id is not None  # noqa: S101 - a submitted job has one
        try:
            await self.slurm.cancel(ref, Viewer(user=workflow.user), job.job_id)
        except RpcFailed as failed:
            if failed.error.kind == "unavailable":
                log.warning("run_step_not_cancelled", run_id=workflow.id, step=job.step_id, reason=failed.error.detail)
                return False
            # The job has ended already, or Slurm has forgotten it.
            log.info("run_step_not_cancelled", run_id=workflow.id, step=job.step_id, reason=failed.error.detail)
        await self._change_job(ref, workflow, index, job.attempt, partial(transitions.cancel_sent, index=index))
        return True

    async def _observe(
        self,
        ref: ClusterRef,
        workflow: Workflow,
        jobs: list[str],
        *,
        reader: str | None = None,
        strict: bool = False,
    ) -> Workflow:
        if not jobs:
            return workflow
        turns = asyncio.Semaphore(READS_AT_A_TIME)
        own = asyncio.Semaphore(READS_OF_A_PERSON)
        if reader is not None:
            own = self._reads.setdefault(reader, own)
        viewer, states, at = Viewer(user=workflow.user), dict[str, str | None](), now()

        async def read(job_id: str) -> None:
            async with turns, own:
                try:
                    states[job_id] = (await self.slurm.job(ref, viewer, job_id)).state
                except RpcFailed as failed:
                    if failed.error.kind == "not_found":
                        states[job_id] = None
                    elif strict:
                        raise

        await asyncio.gather(*(read(job_id) for job_id in jobs))
        changed = await self._change(ref, workflow.id, lambda current: transitions.observed(current, states, at))
        return changed.workflow if changed is not None else workflow

    async def _may_submit(self, ref: ClusterRef, workflow: Workflow, member: Member | None) -> bool:
        """Whether the member may still submit, and is still the user of their workflow."""
        if member is None or member.disabled or not includes(member.role, "member"):
            return False
        binding = await self.directory.cluster(ref)
        if binding is None:
            return False
        user = (await self.unix_users.of(member, binding)).user
        return user is not None and user.uid == workflow.user.uid

    async def _change(self, ref: ClusterRef, run_id: str, change: transitions.Change) -> StoredWorkflow | None:
        return await self.records.change(ref, run_id, lambda workflow: transitions.settled(change(workflow), now()))

    async def _change_job(
        self, ref: ClusterRef, workflow: Workflow, index: int, attempt: int, change: transitions.Change
    ) -> None:
        """Changes a job of the workflow, unless it has reached another attempt by now."""
        await self._change(
            ref, workflow.id, lambda current: change(current) if current.steps[index].attempt == attempt else current
        )


def _outcome(workflow: Workflow, index: int, answer: Submitted | None) -> transitions.Change:
    """The change that an answer makes. Without an answer, the member lost the right to submit before a job existed."""
    if answer is None:
        log.info("run_step_refused", run_id=workflow.id, step=workflow.steps[index].step_id)
        return partial(transitions.rejected, index=index, reason="the owner of the run may not submit jobs any more")
    log.info("run_step_submitted", run_id=workflow.id, step=workflow.steps[index].step_id, job=answer.job_id)
    return partial(transitions.submitted, index=index, job_id=answer.job_id, at=answer.accepted_at)
