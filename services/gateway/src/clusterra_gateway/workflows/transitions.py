"""The state machine of workflows: the next move, and the state after each answer or observation. Without I/O.

A workflow job is submitted as soon as all jobs that it depends on have Slurm jobs. Slurm holds it back until these have
completed (`afterok`), and cancels it if one of them fails. Before the submit, the stored workflow says so (`intended`).
So a gateway that continues after a crash submits with the same key and makes no second Slurm job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from clusterra_contracts.job_states import ENDED

from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.workflows.workflow import MAX_ATTEMPTS, Workflow, WorkflowJob, WorkflowJobState

SUBMIT_FOR = timedelta(seconds=KEEP_SECONDS // 4)
"""A job whose submit has not succeeded after this time is given up. The key of a submit lives four times as long: a
submit after that could make a second Slurm job."""
FORGOTTEN_AFTER = timedelta(minutes=2)
"""If Slurm does not know a job that it accepted this long ago, it has lost the job."""

type Change = Callable[[Workflow], Workflow]


class NotResumable(ValueError):
    """The workflow cannot be resumed now. The message says why."""


@dataclass(frozen=True, slots=True)
class Move:
    """What to do next: `intend` to submit a job (only stored), `submit` it, or `cancel` it."""

    kind: Literal["intend", "submit", "cancel"]
    index: int


def next_move(workflow: Workflow) -> Move | None:
    """The next move; None if all depends on Slurm, or the workflow is over. Expects a `settled` workflow.

    The move is for the first job that needs one. Its parents stand before it, so they have Slurm jobs already.
    """
    for index, job in enumerate(workflow.steps):
        match job.state:
            case "waiting":
                return Move("intend", index)
            case "submitting":
                return Move("submit", index)
            case "submitted" if workflow.cancelling and not job.cancel_sent:
                return Move("cancel", index)
    return None


def has_work(workflow: Workflow) -> bool:
    """Whether a gateway has to advance the workflow."""
    return next_move(workflow) is not None


def parents(workflow: Workflow, job: WorkflowJob) -> tuple[WorkflowJob, ...]:
    """The jobs that a job depends on."""
    return tuple(each for each in workflow.steps if each.step_id in job.depends_on)


def dependency(workflow: Workflow, index: int) -> str | None:
    """The dependency of a job on those that have not completed yet, as in `--dependency`; None for no dependency.

    A job that has completed is left out, because Slurm forgets it after a while.
    """
    jobs = [
        each.job_id for each in parents(workflow, workflow.steps[index]) if each.state != "completed" and each.job_id
    ]
    return f"afterok:{':'.join(jobs)}" if jobs else None


def settled(workflow: Workflow, at: datetime) -> Workflow:
    """The workflow after all changes that follow from its state and the time alone."""
    for index, job in enumerate(workflow.steps):
        if job.state == "waiting":
            if workflow.cancelling:
                workflow = _with(workflow, index, state="cancelled", reason="the run was cancelled")
            elif any(each.over and each.state != "completed" for each in parents(workflow, job)):
                workflow = _with(
                    workflow, index, state="cancelled", reason="a step that it depends on has not completed"
                )
            elif at - (workflow.resumed_at or workflow.created_at) > SUBMIT_FOR:
                workflow = _with(
                    workflow, index, state="not_submitted", reason="the cluster could not be reached for too long"
                )
        elif job.state == "submitting" and job.intended_at is not None and at - job.intended_at > SUBMIT_FOR:
            workflow = _with(workflow, index, state="unknown", reason="nobody knows whether its job was submitted")
    return workflow


def intended(workflow: Workflow, index: int, at: datetime) -> Workflow:
    """The workflow when the submit of a job begins. Unchanged if it began before or the workflow is being cancelled."""
    if workflow.cancelling or workflow.steps[index].state != "waiting":
        return workflow
    return _with(workflow, index, state="submitting", intended_at=at)


def submitted(workflow: Workflow, index: int, job_id: str, at: datetime) -> Workflow:
    """The workflow after Slurm has accepted a job. Unchanged if the job is not `submitting` any more."""
    if workflow.steps[index].state != "submitting":
        return workflow
    return _with(workflow, index, state="submitted", job_id=job_id, job_state="PENDING", submitted_at=at)


def rejected(workflow: Workflow, index: int, reason: str) -> Workflow:
    """The workflow after Slurm has certainly rejected a job. Unchanged if the job is not `submitting`."""
    if workflow.steps[index].state != "submitting":
        return workflow
    return _with(workflow, index, state="rejected", reason=reason)


def cancel_sent(workflow: Workflow, index: int) -> Workflow:
    """The workflow after Slurm was told to cancel a job."""
    return _with(workflow, index, cancel_sent=True)


def cancelled(workflow: Workflow) -> Workflow:
    """The workflow after its owner has cancelled it. Unchanged if it is over."""
    return workflow if workflow.over else workflow.model_copy(update={"cancelling": True})


def observed(workflow: Workflow, states: Mapping[str, str | None], at: datetime) -> Workflow:
    """The workflow after states of Slurm jobs were read, by job id. None: Slurm does not know the job."""
    for index, job in enumerate(workflow.steps):
        if job.state != "submitted" or job.job_id is None or job.job_id not in states:
            continue
        state = states[job.job_id]
        if state is None:
            if job.submitted_at is not None and at - job.submitted_at > FORGOTTEN_AFTER:
                workflow = _with(workflow, index, state="unknown", reason="Slurm does not know its job any more")
        elif state in ENDED:
            workflow = _with(workflow, index, **_ended(job, state))
        else:
            workflow = _with(workflow, index, job_state=state)
    return workflow


def resumed(workflow: Workflow, at: datetime) -> Workflow:
    """The workflow with a new attempt of each job that did not complete. Raises NotResumable."""
    if not workflow.over:
        raise NotResumable("some steps are still under way: wait for their end, or cancel the run")
    again = [index for index, job in enumerate(workflow.steps) if job.state != "completed"]
    if not again:
        raise NotResumable("all its steps have completed")
    if any(workflow.steps[index].attempt >= MAX_ATTEMPTS for index in again):
        raise NotResumable(f"a step was tried {MAX_ATTEMPTS} times already: start a new run")
    for index in again:
        job = workflow.steps[index]
        earlier = (*job.earlier_jobs, job.job_id) if job.job_id else job.earlier_jobs
        anew = WorkflowJob(
            step_id=job.step_id, depends_on=job.depends_on, attempt=job.attempt + 1, earlier_jobs=earlier
        )
        workflow = _with(workflow, index, **dict(anew))
    return workflow.model_copy(update={"cancelling": False, "resumed_at": at})


def worth_reading(workflow: Workflow) -> list[str]:
    """The Slurm jobs whose states may have changed: those that no longer wait for another job of the workflow."""
    return [
        job.job_id
        for job in workflow.steps
        if job.state == "submitted" and job.job_id and all(parent.over for parent in parents(workflow, job))
    ]


def submit_key(workflow: Workflow, index: int) -> str:
    """The idempotency key of a job's submit, which differs for each attempt."""
    return f"run-{workflow.id}-{index}-{workflow.steps[index].attempt}"


def _ended(job: WorkflowJob, state: str) -> dict[str, Any]:
    final: WorkflowJobState = "failed"
    if state == "COMPLETED":
        final = "completed"
    elif state in {"CANCELLED", "REVOKED"}:
        final = "cancelled"
    reason = "" if final == "completed" else f"its job {job.job_id} ended in state {state}"
    return {"state": final, "job_state": state, "reason": reason}


def _with(workflow: Workflow, index: int, **changes: Any) -> Workflow:
    job = workflow.steps[index].model_copy(update=changes)
    return workflow.model_copy(update={"steps": (*workflow.steps[:index], job, *workflow.steps[index + 1 :])})
