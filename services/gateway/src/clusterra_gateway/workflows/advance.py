"""Goes on with runs: submits their steps, cancels their jobs, and reads what became of these.

Any gateway may go on with any run, several at the same time too. What a step's job was submitted for is in its
idempotency key, so however many gateways submit it, and wherever one of them dies, there is one job.
"""

import asyncio
from datetime import timedelta
from functools import partial

import structlog
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm import Submitted, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import includes
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import InFlight, InvalidRequest, KeyReused, OutcomeUnknown, QuotaExceeded
from clusterra_gateway.identity.access.person import AbsentOwner
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.submission.models import JobToSubmit, StepSubmission
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.run import MAX_STEPS, Run
from clusterra_gateway.workflows.run_records import RunRecords, StoredRun

log = structlog.get_logger()

MAX_MOVES = 4 * MAX_STEPS
READS_AT_A_TIME = 4
"""How many jobs of a run are read at a time, so that a large run does not delay other requests."""
OLD_JOB = timedelta(minutes=1)
"""The state of a job that was submitted so long ago is read before another job is made to depend on it."""


class RunWork:
    """What is done for runs. Every method may raise StoreUnavailable and Unavailable."""

    def __init__(
        self,
        records: RunRecords,
        directory: Directory,
        unix_users: UnixUsers,
        slurm: SlurmRequests,
        desk: SubmitDesk,
    ) -> None:
        self._records = records
        self._directory = directory
        self._unix_users = unix_users
        self._slurm = slurm
        self._desk = desk

    async def advance(self, ref: ClusterRef, run_id: str) -> Run | None:
        """Do all that can be done for a run now, and return it; None when there is none.

        It ends early where an answer of Slurm is missing: ask again later.
        """
        run = None
        for _ in range(MAX_MOVES):
            stored = await self._change(ref, run_id, lambda run: run)
            if stored is None:
                await self._records.finish(ref, run_id)
                return None
            run = stored.run
            move = transitions.next_move(run)
            if move is None or not await self._made(ref, run, move):
                break
        return run

    async def refreshed(self, ref: ClusterRef, run: Run) -> Run:
        """The run after Slurm's states of its jobs were read and noted. Unreadable jobs keep their states.

        Jobs that wait for others are not read, so that a long run costs no more reads than it has steps under way.
        """
        read = set[str]()
        while jobs := [job_id for job_id in transitions.worth_reading(run) if job_id not in read]:
            run = await self._observe(ref, run, jobs)
            read.update(jobs)
        return run

    async def _made(self, ref: ClusterRef, run: Run, move: transitions.Move) -> bool:
        """Make a move. Returns False where its outcome is not known yet."""
        match move.kind:
            case "intend":
                if not await self._may_submit(ref, run, await self._directory.member(run.member)):
                    await self._change(ref, run.id, transitions.cancelled)
                    return True
                at, attempt = now(), run.steps[move.index].attempt
                await self._change_step(
                    ref, run, move.index, attempt, partial(transitions.intended, index=move.index, at=at)
                )
                return True
            case "submit":
                return await self._submit(ref, run, move.index)
            case "cancel":
                return await self._cancel(ref, run, move.index)

    async def _submit(self, ref: ClusterRef, run: Run, index: int) -> bool:
        step = run.steps[index]
        old = [
            each.job_id
            for each in transitions.parents(run, step)
            if each.state == "submitted" and each.job_id and each.submitted_at and now() - each.submitted_at > OLD_JOB
        ]
        run = await self._observe(ref, run, old)
        work = await self._records.work(ref, run.id, index)
        member = await self._directory.member(run.member)
        if work is None or member is None:
            # The tenant is being deleted: the records of its people go after those of its clusters.
            return False
        owner, key = AbsentOwner(member, run.user), transitions.step_key(run, index)
        job = JobToSubmit.model_validate(
            {**work.job.model_dump(), **work.further.model_dump(), "dependency": transitions.dependency(run, index)}
        )
        submission = StepSubmission(work.script, job, work.staging)
        # A submit from before they lost the right may have made a job, which must not be lost sight of.
        send = self._desk.submit if await self._may_submit(ref, run, member) else self._desk.find
        change: transitions.Change
        try:
            answer = await send(owner, ref, submission, key, key)
        except (InFlight, OutcomeUnknown, KeyReused) as unknown:
            log.warning("run_step_not_answered", run_id=run.id, step=step.step_id, reason=unknown.detail)
            return False
        except (QuotaExceeded, InvalidRequest) as refused:
            change = partial(transitions.rejected, index=index, reason=f"{refused.detail} {refused.hint}".strip())
        except RpcFailed as failed:
            if failed.error.kind == "unavailable" or failed.error.may_have_effect:
                log.warning("run_step_not_submitted", run_id=run.id, step=step.step_id, reason=failed.error.detail)
                return False
            reason = " ".join(part for part in (failed.error.detail, failed.error.hint) if part)
            change = partial(transitions.rejected, index=index, reason=reason)
        else:
            change = _outcome(run, index, answer)
        await self._change_step(ref, run, index, step.attempt, change)
        return True

    async def _cancel(self, ref: ClusterRef, run: Run, index: int) -> bool:
        step = run.steps[index]
        assert step.job_id is not None  # noqa: S101 - a submitted step has one
        try:
            await self._slurm.cancel(ref, Viewer(user=run.user), step.job_id)
        except RpcFailed as failed:
            if failed.error.kind == "unavailable":
                log.warning("run_step_not_cancelled", run_id=run.id, step=step.step_id, reason=failed.error.detail)
                return False
            # The job has ended already, or Slurm has forgotten it.
            log.info("run_step_not_cancelled", run_id=run.id, step=step.step_id, reason=failed.error.detail)
        await self._change_step(ref, run, index, step.attempt, partial(transitions.cancel_sent, index=index))
        return True

    async def _observe(self, ref: ClusterRef, run: Run, jobs: list[str]) -> Run:
        if not jobs:
            return run
        turns = asyncio.Semaphore(READS_AT_A_TIME)
        viewer, states, at = Viewer(user=run.user), dict[str, str | None](), now()

        async def read(job_id: str) -> None:
            async with turns:
                try:
                    states[job_id] = (await self._slurm.job(ref, viewer, job_id)).state
                except RpcFailed as failed:
                    if failed.error.kind == "not_found":
                        states[job_id] = None

        await asyncio.gather(*(read(job_id) for job_id in jobs))
        changed = await self._change(ref, run.id, lambda current: transitions.observed(current, states, at))
        return changed.run if changed is not None else run

    async def _may_submit(self, ref: ClusterRef, run: Run, member: Member | None) -> bool:
        """Whether the member may submit still, and is the user of their run still."""
        if member is None or member.disabled or not includes(member.role, "member"):
            return False
        binding = await self._directory.cluster(ref)
        if binding is None:
            return False
        user = (await self._unix_users.of(member, binding)).user
        return user is not None and user.uid == run.user.uid

    async def _change(self, ref: ClusterRef, run_id: str, change: transitions.Change) -> StoredRun | None:
        return await self._records.change(ref, run_id, lambda run: transitions.settled(change(run), now()))

    async def _change_step(
        self, ref: ClusterRef, run: Run, index: int, attempt: int, change: transitions.Change
    ) -> None:
        """Change a step, unless it is at another attempt by now."""
        await self._change(
            ref, run.id, lambda current: change(current) if current.steps[index].attempt == attempt else current
        )


def _outcome(run: Run, index: int, answer: Submitted | None) -> transitions.Change:
    """The change that an answer makes: a job, or none for a member who lost the right before there was one."""
    if answer is None:
        log.info("run_step_refused", run_id=run.id, step=run.steps[index].step_id)
        return partial(transitions.rejected, index=index, reason="the owner of the run may not submit jobs any more")
    log.info("run_step_submitted", run_id=run.id, step=run.steps[index].step_id, job=answer.job_id)
    return partial(transitions.submitted, index=index, job_id=answer.job_id, at=answer.accepted_at)
