from collections.abc import Iterable

from clusterra_contracts.events import JOB_ENDS, JobFact
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import PendingEvent
from clusterra_proxy.watch.job_facts import (
    UNKNOWN_UID,
    JobTransition,
    PublishedJobEvents,
    job_event,
    transitions,
)
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def event_lines(record: JobRecord) -> list[str]:
    return [f"{transition.job_id} {transition.kind}" for transition in transitions(record)]


def job_events(record: JobRecord, user: str = "alice") -> list[PendingEvent[JobFact]]:
    return [job_event(transition, record, user) for transition in transitions(record)]


def test_a_finished_job_proves_its_whole_life() -> None:
    events = job_events(job(7, "COMPLETED", submit=0, start=3, end=5))
    assert [(each.fact.kind, each.time) for each in events] == [
        ("job.submitted", at(0)),
        ("job.running", at(3)),
        ("job.completed", at(5)),
    ]
    assert {each.version for each in events} == {f"{int(at(0).timestamp())}.0"}
    over = events[-1].fact
    assert (over.exit_code, over.nodes, over.state, over.user, over.uid) == (0, ("w1",), "COMPLETED", "alice", 5001)


def test_states_become_kinds() -> None:
    assert event_lines(job(7)) == ["7 job.submitted"]
    assert event_lines(job(7, "RUNNING")) == ["7 job.submitted", "7 job.running"]
    assert event_lines(job(7, "RUNNING+COMPLETING")) == ["7 job.submitted", "7 job.running"]
    assert event_lines(job(7, "FAILED")) == ["7 job.submitted", "7 job.running", "7 job.failed"]
    assert event_lines(job(7, "TIMEOUT")) == ["7 job.submitted", "7 job.running", "7 job.timeout"]
    assert event_lines(job(7, "NODE_FAIL", end=2))[-1] == "7 job.failed"
    assert event_lines(job(7, "OUT_OF_MEMORY", end=2))[-1] == "7 job.failed"


def test_what_was_cancelled_before_it_began_never_ran() -> None:
    # slurmctld gives it a start, which is its end, and no nodes.
    assert event_lines(job(7, "CANCELLED", start=2, end=2)) == ["7 job.submitted", "7 job.cancelled"]


def test_an_expected_start_is_none() -> None:
    assert event_lines(job(7, start=100)) == ["7 job.submitted"]


def test_an_array_is_submitted_once_and_its_tasks_run() -> None:
    assert event_lines(waiting_array(9, "0-4%2")) == ["9 job.submitted"]
    assert event_lines(task(10, 9, 0)) == ["9 job.submitted", "9_0 job.running"]
    assert event_lines(task(9, 9, 4, "COMPLETED")) == ["9 job.submitted", "9_4 job.running", "9_4 job.completed"]
    assert event_lines(waiting_array(9, "0-4", end=2).model_copy(update={"job_state": ("CANCELLED",)})) == [
        "9 job.submitted",
        "9 job.cancelled",
    ]


def test_a_requeued_run_is_another_one() -> None:
    first = transitions(job(7, "RUNNING", submit=0))
    # Until slurmctld has given the new run its own submit time, the record is of neither.
    assert event_lines(job(7, "PENDING+COMPLETING", nodes="w1", restart_cnt=1)) == []
    waiting = job(7, submit=60, restart_cnt=1, state_reason="BeginTime")
    assert event_lines(waiting) == ["7 job.requeued"]
    second = transitions(job(7, "COMPLETED", submit=60, start=200, end=210, restart_cnt=1))
    assert [transition.kind for transition in second] == ["job.requeued", "job.running", "job.completed"]
    assert {transition.version for transition in first}.isdisjoint(transition.version for transition in second)


def test_an_owner_that_nobody_told_is_said_so() -> None:
    (fact,) = job_events(job(7, user_id=None))
    assert fact.fact.uid == UNKNOWN_UID


LIFE = (
    job(7, submit=0),
    job(7, "RUNNING", submit=0),
    job(7, "PENDING+COMPLETING", nodes="w1", restart_cnt=1),
    job(7, submit=60, restart_cnt=1),
    job(7, "RUNNING", submit=60, restart_cnt=1, start=70),
    job(7, "COMPLETED+COMPLETING", submit=60, restart_cnt=1, start=70, end=80),
    job(7, "COMPLETED", submit=60, restart_cnt=1, start=70, end=80),
)
LIFE_EVENTS = {
    ("job.submitted", "0"),
    ("job.running", "0"),
    ("job.requeued", "1"),
    ("job.running", "1"),
    ("job.completed", "1"),
}


def kinds_and_runs(found: Iterable[JobTransition]) -> list[tuple[str, str]]:
    return [(transition.kind, transition.version[-1]) for transition in found]


@given(st.lists(st.sampled_from(LIFE), min_size=1))
def test_whatever_is_seen_and_however_often_each_fact_is_told_once(records: list[JobRecord]) -> None:
    published = PublishedJobEvents()
    take_unpublished = [
        transition for record in records for transition in published.take_unpublished(transitions(record))
    ]
    assert len(set(kinds_and_runs(take_unpublished))) == len(take_unpublished)
    assert set(kinds_and_runs(take_unpublished)) <= LIFE_EVENTS
    assert set(kinds_and_runs(take_unpublished)) == {
        fact for record in records for fact in kinds_and_runs(transitions(record))
    }


@given(st.lists(st.sampled_from(LIFE)), st.lists(st.sampled_from(LIFE)))
def test_a_ledger_that_was_read_back_tells_the_same(before: list[JobRecord], after: list[JobRecord]) -> None:
    first = PublishedJobEvents()
    told_before = [transition for record in before for transition in first.take_unpublished(transitions(record))]
    second = PublishedJobEvents()
    for transition in told_before:
        second.add(transition.job_id, transition.version, transition.kind)
    take_unpublished = [transition for record in after for transition in second.take_unpublished(transitions(record))]
    assert set(kinds_and_runs(take_unpublished)).isdisjoint(kinds_and_runs(told_before))
    known = kinds_and_runs([*told_before, *take_unpublished])
    last_run = max((run for _, run in known), default="")
    over = not known or any(kind in JOB_ENDS and run == last_run for kind, run in known)
    assert second.unfinished() == (frozenset() if over else {"7"})


def test_an_array_is_unfinished_by_its_tasks() -> None:
    published = PublishedJobEvents()
    published.take_unpublished(transitions(waiting_array(9, "0-1")))
    assert published.unfinished() == {"9"}
    published.take_unpublished(transitions(task(10, 9, 0)))
    assert published.unfinished() == {"9_0"}
    published.take_unpublished(transitions(task(10, 9, 0, "COMPLETED")))
    assert published.unfinished() == frozenset()


def test_forgotten_jobs_are_told_again() -> None:
    published = PublishedJobEvents()
    assert published.take_unpublished(transitions(job(7)))
    published.retain({"8"})
    assert published.take_unpublished(transitions(job(7)))
    published.retain({"7"})
    assert not published.take_unpublished(transitions(job(7)))
