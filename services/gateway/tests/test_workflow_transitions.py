"""Properties of workflows, on any graph of jobs and any history of answers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.models import InvalidDependencies, dependencies
from clusterra_gateway.workflows.transitions import SUBMIT_FOR, NotResumable
from clusterra_gateway.workflows.workflow import MAX_ATTEMPTS, Workflow, WorkflowJob
from hypothesis import given
from hypothesis import strategies as st

AT = datetime(2026, 5, 1, tzinfo=UTC)
ENDS = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """A workflow of up to eight jobs, each depending on some of the jobs before it."""
    steps: list[WorkflowJob] = []
    for index in range(draw(st.integers(1, 8))):
        before = [job.step_id for job in steps]
        wanted = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        steps.append(WorkflowJob(step_id=f"s{index}", depends_on=tuple(wanted)))
    return Workflow(
        id="0" * 32,
        name="r",
        member="m",
        user=SlurmUser(name="ada", uid=20001, gid=20001),
        created_at=AT,
        digest="d",
        steps=tuple(steps),
    )


class Slurm:
    """Slurm as far as a workflow sees it: jobs with dependencies, which are cancelled when these fail."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.states: dict[str, str] = {}
        self.waits: dict[str, tuple[str, ...]] = {}

    def submit(self, dependency: str | None) -> str:
        job_id = str(len(self.states) + 1)
        self.states[job_id] = "PENDING"
        self.waits[job_id] = tuple((dependency or "").removeprefix("afterok:").split(":")) if dependency else ()
        return job_id

    def end_one(self) -> None:
        for job_id, waits in self.waits.items():
            if self.states[job_id] == "PENDING" and any(
                self.states[each] in ENDS and self.states[each] != "COMPLETED" for each in waits
            ):
                self.states[job_id] = "CANCELLED"
                return
        ready = [
            job_id
            for job_id, state in self.states.items()
            if state == "PENDING" and all(self.states[each] == "COMPLETED" for each in self.waits[job_id])
        ]
        if ready:
            self.states[self.data.draw(st.sampled_from(ready))] = self.data.draw(st.sampled_from(ENDS))


def played(data: st.DataObject, workflow: Workflow, slurm: Slurm, *, cancel_after: int | None = None) -> Workflow:
    """The run at its end, after answers of all kinds."""
    for count in range(400):
        if count == cancel_after:
            workflow = transitions.cancelled(workflow)
        workflow = transitions.settled(workflow, AT)
        move = transitions.next_move(workflow)
        if move is None:
            if workflow.over:
                return workflow
            slurm.end_one()
            workflow = transitions.observed(workflow, dict(slurm.states), AT)
        elif move.kind == "intend":
            assert not workflow.cancelling
            workflow = transitions.intended(workflow, move.index, AT)
        elif move.kind == "submit":
            parents = transitions.parents(workflow, workflow.steps[move.index])
            assert all(parent.job_id is not None for parent in parents)
            if data.draw(st.integers(0, 9)) == 0:
                workflow = transitions.rejected(workflow, move.index, "no")
            else:
                job_id = slurm.submit(transitions.dependency(workflow, move.index))
                workflow = transitions.submitted(workflow, move.index, job_id, AT)
        else:
            job_id = workflow.steps[move.index].job_id or ""
            if slurm.states[job_id] not in ENDS:
                slurm.states[job_id] = "CANCELLED"
            workflow = transitions.cancel_sent(workflow, move.index)
    raise AssertionError(f"the run does not end: {workflow}")


@given(st.data(), workflows())
def test_every_workflow_ends_and_completes_no_job_whose_dependencies_did_not(
    data: st.DataObject, workflow: Workflow
) -> None:
    ended = played(data, workflow, Slurm(data))

    for job in ended.steps:
        if job.state == "completed":
            assert {parent.state for parent in transitions.parents(ended, job)} <= {"completed"}
    assert ended.state in {"completed", "failed", "cancelled"}
    assert transitions.settled(ended, AT) == ended
    assert not transitions.has_work(ended)


@given(st.data(), workflows(), st.integers(0, 12))
def test_after_a_cancel_no_job_begins_to_be_submitted(data: st.DataObject, workflow: Workflow, after: int) -> None:
    ended = played(data, workflow, Slurm(data), cancel_after=after)

    assert ended.over


@given(st.data(), workflows())
def test_a_resumed_workflow_repeats_only_what_did_not_complete(data: st.DataObject, workflow: Workflow) -> None:
    slurm = Slurm(data)
    ended = played(data, workflow, slurm)
    if ended.state == "completed":
        with pytest.raises(NotResumable, match="completed"):
            transitions.resumed(ended, AT)
        return

    again = transitions.resumed(ended, AT)

    for before, after in zip(ended.steps, again.steps, strict=True):
        if before.state == "completed":
            assert after == before
        else:
            assert (after.state, after.job_id, after.attempt) == ("waiting", None, before.attempt + 1)
            assert before.job_id is None or before.job_id in after.earlier_jobs
    keys = {transitions.submit_key(each, index) for each in (ended, again) for index in range(len(workflow.steps))}
    assert len(keys) == len(workflow.steps) + sum(job.state != "completed" for job in ended.steps)
    assert played(data, again, slurm).over


def test_what_is_learned_late_changes_nothing() -> None:
    workflow = transitions.intended(_one(), 0, AT)
    done = transitions.submitted(workflow, 0, "7", AT)

    assert transitions.rejected(done, 0, "no") == done
    assert transitions.submitted(done, 0, "8", AT) == done
    assert transitions.intended(done, 0, AT) == done
    over = transitions.observed(done, {"7": "FAILED"}, AT)
    assert transitions.observed(over, {"7": "COMPLETED"}, AT) == over
    assert transitions.cancelled(over) == over


def test_a_submit_is_given_up_before_its_key_expires() -> None:
    late = AT + SUBMIT_FOR + timedelta(seconds=1)

    assert transitions.settled(_one(), late).steps[0].state == "not_submitted"
    assert transitions.settled(transitions.intended(_one(), 0, AT), late).steps[0].state == "unknown"


def test_a_job_that_slurm_has_lost_ends_its_workflow_job() -> None:
    workflow = transitions.submitted(transitions.intended(_one(), 0, AT), 0, "7", AT)

    assert transitions.observed(workflow, {"7": None}, AT + timedelta(seconds=5)) == workflow
    assert transitions.observed(workflow, {"7": None}, AT + timedelta(hours=1)).steps[0].state == "unknown"


def test_a_workflow_is_not_resumed_without_end() -> None:
    workflow = _one()
    for _ in range(MAX_ATTEMPTS - 1):
        workflow = transitions.resumed(transitions.rejected(transitions.intended(workflow, 0, AT), 0, "no"), AT)

    with pytest.raises(NotResumable, match="20 times"):
        transitions.resumed(transitions.rejected(transitions.intended(workflow, 0, AT), 0, "no"), AT)


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        ([("a", None), ("b", None), ("c", None)], {"a": (), "b": ("a",), "c": ("b",)}),
        ([("a", ("b",)), ("b", ())], {"b": (), "a": ("b",)}),
        ([("a", ()), ("b", ("a", "a"))], {"a": (), "b": ("a",)}),
    ],
)
def test_the_order_of_jobs(steps: Any, order: dict[str, tuple[str, ...]]) -> None:
    assert list(dependencies(steps).items()) == list(order.items())


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([("a", None), ("a", None)], "two steps a"),
        ([("a", ("b",))], "no step of this run"),
        ([("a", ("a",))], "a -> a"),
        ([("a", ("c",)), ("b", ("a",)), ("c", ("b",))], "wait for each other"),
    ],
)
def test_impossible_orders(steps: Any, why: str) -> None:
    with pytest.raises(InvalidDependencies, match=why):
        dependencies(steps)


def _one() -> Workflow:
    return Workflow(
        id="0" * 32,
        name="r",
        member="m",
        user=SlurmUser(name="ada", uid=20001, gid=20001),
        created_at=AT,
        digest="d",
        steps=(WorkflowJob(step_id="only"),),
    )
