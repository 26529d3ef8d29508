from collections.abc import Iterable

import pytest
from clusterra_contracts.events import JOB_ENDS, JobFact
from clusterra_contracts.identity import now
from clusterra_proxy.slurmrestd.records import ExitCode, JobRecord
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


def test_a_finished_job_proves_all_its_transitions() -> None:
    events = job_events(job(7, "COMPLETED", submit=0, start=3, end=5))
    assert [(each.fact.kind, each.time) for each in events] == [
        ("job.submitted", at(0)),
        ("job.running", at(3)),
        ("job.completed", at(5)),
    ]
    assert {each.version for each in events} == {f"{int(at(0).timestamp())}.0"}

    over = events[-1].fact
    assert (over.exit_code, over.nodes, over.state, over.user, over.uid) == (0, ("w1",), "COMPLETED", "alice", 5001)


def test_what_a_clock_that_is_ahead_tells_has_happened_when_it_was_seen() -> None:
    ahead = round((now() - at(0)).total_seconds()) + 3600

    seen = [
        each
        for state in ("RUNNING", "COMPLETED")
        for each in job_events(job(7, state, submit=0, start=ahead, end=ahead + 60))
    ]

    told = [each.time for each in seen] + [each.fact.started_at or each.time for each in seen]
    assert max(told) <= now()
    assert seen[-1].fact.ended_at == seen[-1].time
    assert (seen[-1].fact.submitted_at, seen[-1].version) == (at(0), f"{int(at(0).timestamp())}.0")


def test_each_state_proves_its_transitions() -> None:
    assert event_lines(job(7)) == ["7 job.submitted"]
    assert event_lines(job(7, "RUNNING")) == ["7 job.submitted", "7 job.running"]
    assert event_lines(job(7, "RUNNING+COMPLETING")) == ["7 job.submitted", "7 job.running"]
    assert event_lines(job(7, "FAILED")) == ["7 job.submitted", "7 job.running", "7 job.failed"]
    assert event_lines(job(7, "TIMEOUT")) == ["7 job.submitted", "7 job.running", "7 job.timeout"]
    assert event_lines(job(7, "NODE_FAIL", end=2))[-1] == "7 job.failed"
    assert event_lines(job(7, "OUT_OF_MEMORY", end=2))[-1] == "7 job.failed"


def test_a_job_cancelled_before_its_start_never_ran() -> None:
    # slurmctld sets its start time to its end time, and no nodes.
    assert event_lines(job(7, "CANCELLED", start=2, end=2)) == ["7 job.submitted", "7 job.cancelled"]


def test_the_forecast_start_of_a_pending_job_is_ignored() -> None:
    assert event_lines(job(7, start=100)) == ["7 job.submitted"]


def test_an_array_is_submitted_once_and_its_tasks_run_separately() -> None:
    assert event_lines(waiting_array(9, "0-4%2")) == ["9 job.submitted"]
    assert event_lines(task(10, 9, 0)) == ["9 job.submitted", "9_0 job.running"]
    assert event_lines(task(9, 9, 4, "COMPLETED")) == ["9 job.submitted", "9_4 job.running", "9_4 job.completed"]
    assert event_lines(waiting_array(9, "0-4", end=2).model_copy(update={"job_state": ("CANCELLED",)})) == [
        "9 job.submitted",
        "9 job.cancelled",
    ]


def test_a_requeued_run_has_another_version() -> None:
    first = transitions(job(7, "RUNNING", submit=0))
    # Until slurmctld sets the new run's submit time, the record belongs to neither run.
    assert event_lines(job(7, "PENDING+COMPLETING", nodes="w1", restart_cnt=1)) == []

    waiting = job(7, submit=60, restart_cnt=1, state_reason="BeginTime")
    assert event_lines(waiting) == ["7 job.requeued"]

    second = transitions(job(7, "COMPLETED", submit=60, start=200, end=210, restart_cnt=1))
    assert [transition.kind for transition in second] == ["job.requeued", "job.running", "job.completed"]
    assert {transition.version for transition in first}.isdisjoint(transition.version for transition in second)


def test_a_job_that_a_worker_killed_says_why() -> None:
    why = "exceeded scratch limit: 20480 KiB in /tmp on w1, and 16384 KiB are the share of the job's CPUs"
    killed = job(7, "FAILED", state_reason="RaisedSignal:9(Killed)", admin_comment=why)
    noted = killed.model_copy(update={"admin_comment": "asked for by the site"})

    assert job_events(killed)[-1].fact.reason == why
    assert job_events(noted)[-1].fact.reason == "RaisedSignal:9(Killed)"


def test_an_unknown_owner_has_the_unknown_uid() -> None:
    (event,) = job_events(job(7, user_id=None))
    assert event.fact.uid == UNKNOWN_UID


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
def test_each_transition_is_taken_once_whatever_is_observed(records: list[JobRecord]) -> None:
    published = PublishedJobEvents()
    taken = [transition for record in records for transition in published.take_unpublished(transitions(record))]
    assert len(set(kinds_and_runs(taken))) == len(taken)
    assert set(kinds_and_runs(taken)) <= LIFE_EVENTS
    assert set(kinds_and_runs(taken)) == {fact for record in records for fact in kinds_and_runs(transitions(record))}


@given(st.lists(st.sampled_from(LIFE)), st.lists(st.sampled_from(LIFE)))
def test_replayed_events_are_not_taken_again(before: list[JobRecord], after: list[JobRecord]) -> None:
    before_restart = PublishedJobEvents()
    taken_before = [
        transition for record in before for transition in before_restart.take_unpublished(transitions(record))
    ]
    after_restart = PublishedJobEvents()
    for transition in taken_before:
        after_restart.add(transition.job_id, transition.version, transition.kind)
    taken = [transition for record in after for transition in after_restart.take_unpublished(transitions(record))]

    assert set(kinds_and_runs(taken)).isdisjoint(kinds_and_runs(taken_before))

    known = kinds_and_runs([*taken_before, *taken])
    last_run = max((run for _, run in known), default="")
    over = not known or any(kind in JOB_ENDS and run == last_run for kind, run in known)

    assert after_restart.unfinished() == (frozenset() if over else {"7"})


def test_an_array_is_unfinished_by_its_tasks() -> None:
    published = PublishedJobEvents()
    published.take_unpublished(transitions(waiting_array(9, "0-1")))

    assert published.unfinished() == {"9"}

    published.take_unpublished(transitions(task(10, 9, 0)))
    assert published.unfinished() == {"9_0"}

    published.take_unpublished(transitions(task(10, 9, 0, "COMPLETED")))
    assert published.unfinished() == frozenset()


def test_only_retained_jobs_are_remembered() -> None:
    published = PublishedJobEvents()
    assert published.take_unpublished(transitions(job(7)))
    published.retain({"8"})
    assert published.take_unpublished(transitions(job(7)))
    published.retain({"7"})
    assert not published.take_unpublished(transitions(job(7)))


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [("COMPLETED", 0, 0), ("FAILED", 3, 3), ("FAILED", 0, None), ("CANCELLED", 0, None), ("TIMEOUT", 0, None)],
)
def test_an_exit_code_of_zero_is_that_of_a_completed_job(state: str, code: int, told: int | None) -> None:
    record = job(7, state, nodes="w1", start=1, end=2, exit_code=ExitCode(return_code=code))

    assert job_events(record)[-1].fact.exit_code == told


def test_a_job_that_never_started_has_no_exit_code() -> None:
    assert job_events(job(7, "CANCELLED", start=2, end=2))[-1].fact.exit_code is None


def test_a_limit_of_a_year_is_none() -> None:
    limits = [
        job(7, time_limit={"set": True, "infinite": False, "number": number}).time_limit for number in (60, 525600)
    ]

    assert limits == [60, None]
