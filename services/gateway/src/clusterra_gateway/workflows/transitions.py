"""How a run goes on: what to do next, and what follows from what was done or seen. Without I/O.

A step is submitted as soon as each step that it depends on has a job; Slurm holds it back until these have completed
(`afterok`), and cancels it when one of them fails. Before a step's job is submitted, the run says so (`intended`), so
that whoever goes on after a crash submits with the same key and makes no second job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from clusterra_contracts.job_states import ENDED

from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.workflows.run import MAX_ATTEMPTS, Run, Step, StepState

SUBMIT_FOR = timedelta(seconds=KEEP_SECONDS // 4)
"""A step whose submit has not succeeded after this time is given up. The key of a submit lives four times as long: a
submit after that could make a second job."""
FORGOTTEN_AFTER = timedelta(minutes=2)
"""When Slurm does not know a job that it accepted so long ago, it has lost it."""

type Change = Callable[[Run], Run]


class NotResumable(ValueError):
    """The run cannot be resumed now. The text says why."""


@dataclass(frozen=True, slots=True)
class Move:
    """What to do next: `intend` to submit a step (only written), `submit` it, or `cancel` its job."""

    kind: Literal["intend", "submit", "cancel"]
    index: int


def next_move(run: Run) -> Move | None:
    """What to do next; None when all is up to Slurm, or the run is over. Expects a `settled` run.

    The first step that needs something comes first, and its parents stand before it. So these have jobs.
    """
    for index, step in enumerate(run.steps):
        match step.state:
            case "waiting":
                return Move("intend", index)
            case "submitting":
                return Move("submit", index)
            case "submitted" if run.cancelling and not step.cancel_sent:
                return Move("cancel", index)
    return None


def has_work(run: Run) -> bool:
    """Whether a gateway has to go on with the run."""
    return next_move(run) is not None


def parents(run: Run, step: Step) -> tuple[Step, ...]:
    """The steps that a step depends on."""
    return tuple(each for each in run.steps if each.step_id in step.depends_on)


def dependency(run: Run, index: int) -> str | None:
    """The dependency of a step's job, as in `--dependency`: on the jobs that have not completed yet.

    A job that has completed is left out, because Slurm forgets it after a while.
    """
    jobs = [each.job_id for each in parents(run, run.steps[index]) if each.state != "completed" and each.job_id]
    return f"afterok:{':'.join(jobs)}" if jobs else None


def settled(run: Run, at: datetime) -> Run:
    """The run after what follows from its state and the time alone."""
    for index, step in enumerate(run.steps):
        if step.state == "waiting":
            if run.cancelling:
                run = _with(run, index, state="cancelled", reason="the run was cancelled")
            elif any(each.over and each.state != "completed" for each in parents(run, step)):
                run = _with(run, index, state="cancelled", reason="a step that it depends on has not completed")
            elif at - (run.resumed_at or run.created_at) > SUBMIT_FOR:
                run = _with(run, index, state="not_submitted", reason="the cluster could not be reached for too long")
        elif step.state == "submitting" and step.intended_at is not None and at - step.intended_at > SUBMIT_FOR:
            run = _with(run, index, state="unknown", reason="nobody knows whether its job was submitted")
    return run


def intended(run: Run, index: int, at: datetime) -> Run:
    """The run when a step's submit begins, unless it has begun already or the run is being cancelled."""
    if run.cancelling or run.steps[index].state != "waiting":
        return run
    return _with(run, index, state="submitting", intended_at=at)


def submitted(run: Run, index: int, job_id: str, at: datetime) -> Run:
    """The run after Slurm has accepted a step's job. A gateway that learns it late changes nothing."""
    if run.steps[index].state != "submitting":
        return run
    return _with(run, index, state="submitted", job_id=job_id, job_state="PENDING", submitted_at=at)


def rejected(run: Run, index: int, reason: str) -> Run:
    """The run after Slurm has certainly not accepted a step's job. A gateway that learns it late changes nothing."""
    if run.steps[index].state != "submitting":
        return run
    return _with(run, index, state="rejected", reason=reason)


def cancel_sent(run: Run, index: int) -> Run:
    """The run after Slurm was told to cancel a step's job."""
    return _with(run, index, cancel_sent=True)


def cancelled(run: Run) -> Run:
    """The run once its owner wants its end. A run that is over stays as it is."""
    return run if run.over else run.model_copy(update={"cancelling": True})


def observed(run: Run, states: Mapping[str, str | None], at: datetime) -> Run:
    """The run after Slurm's states of jobs were read, by job id. None: Slurm does not know the job."""
    for index, step in enumerate(run.steps):
        if step.state != "submitted" or step.job_id is None or step.job_id not in states:
            continue
        state = states[step.job_id]
        if state is None:
            if step.submitted_at is not None and at - step.submitted_at > FORGOTTEN_AFTER:
                run = _with(run, index, state="unknown", reason="Slurm does not know its job any more")
        elif state in ENDED:
            run = _with(run, index, **_ended(step, state))
        else:
            run = _with(run, index, job_state=state)
    return run


def resumed(run: Run, at: datetime) -> Run:
    """The run when its steps that did not complete are tried again. Raises NotResumable."""
    if not run.over:
        raise NotResumable("some steps are still under way: wait for their end, or cancel the run")
    again = [index for index, step in enumerate(run.steps) if step.state != "completed"]
    if not again:
        raise NotResumable("all its steps have completed")
    if any(run.steps[index].attempt >= MAX_ATTEMPTS for index in again):
        raise NotResumable(f"a step was tried {MAX_ATTEMPTS} times already: start a new run")
    for index in again:
        step = run.steps[index]
        earlier = (*step.earlier_jobs, step.job_id) if step.job_id else step.earlier_jobs
        anew = Step(step_id=step.step_id, depends_on=step.depends_on, attempt=step.attempt + 1, earlier_jobs=earlier)
        run = _with(run, index, **dict(anew))
    return run.model_copy(update={"cancelling": False, "resumed_at": at})


def worth_reading(run: Run) -> list[str]:
    """The jobs whose states may have changed: those of steps that wait for no other step any more."""
    return [
        step.job_id
        for step in run.steps
        if step.state == "submitted" and step.job_id and all(parent.over for parent in parents(run, step))
    ]


def step_key(run: Run, index: int) -> str:
    """The idempotency key of a step's submit: another one for each attempt."""
    return f"run-{run.id}-{index}-{run.steps[index].attempt}"


def _ended(step: Step, state: str) -> dict[str, Any]:
    final: StepState = "failed"
    if state == "COMPLETED":
        final = "completed"
    elif state in {"CANCELLED", "REVOKED"}:
        final = "cancelled"
    reason = "" if final == "completed" else f"its job {step.job_id} ended in state {state}"
    return {"state": final, "job_state": state, "reason": reason}


def _with(run: Run, index: int, **changes: Any) -> Run:
    step = run.steps[index].model_copy(update=changes)
    return run.model_copy(update={"steps": (*run.steps[:index], step, *run.steps[index + 1 :])})
