from clusterra_contracts.events import JOB_ENDS
from clusterra_proxy.facts import UNKNOWN_UID, Ledger, Occurrence, facts
from clusterra_proxy.records import JobRecord
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def told(record: JobRecord) -> list[str]:
    return [f"{occurrence.fact.job_id} {occurrence.fact.kind}" for occurrence in facts(record, "alice")]


def test_a_finished_job_proves_its_whole_life() -> None:
    occurrences = facts(job(7, "COMPLETED", submit=0, start=3, end=5), "alice")
    assert [(occurrence.fact.kind, occurrence.time) for occurrence in occurrences] == [
        ("job.submitted", at(0)),
        ("job.running", at(3)),
        ("job.completed", at(5)),
    ]
    assert {occurrence.version for occurrence in occurrences} == {f"{int(at(0).timestamp())}.0"}
    over = occurrences[-1].fact
    assert (over.exit_code, over.nodes, over.state, over.user, over.uid) == (0, ("w1",), "COMPLETED", "alice", 5001)


def test_states_become_kinds() -> None:
    assert told(job(7)) == ["7 job.submitted"]
    assert told(job(7, "RUNNING")) == ["7 job.submitted", "7 job.running"]
    assert told(job(7, "RUNNING+COMPLETING")) == ["7 job.submitted", "7 job.running"]
    assert told(job(7, "FAILED")) == ["7 job.submitted", "7 job.running", "7 job.failed"]
    assert told(job(7, "TIMEOUT")) == ["7 job.submitted", "7 job.running", "7 job.timeout"]
    assert told(job(7, "NODE_FAIL", end=2))[-1] == "7 job.failed"
    assert told(job(7, "OUT_OF_MEMORY", end=2))[-1] == "7 job.failed"


def test_what_was_cancelled_before_it_began_never_ran() -> None:
    # slurmctld gives it a start, which is its end, and no nodes.
    assert told(job(7, "CANCELLED", start=2, end=2)) == ["7 job.submitted", "7 job.cancelled"]


def test_an_expected_start_is_none() -> None:
    assert told(job(7, start=100)) == ["7 job.submitted"]


def test_an_array_is_submitted_once_and_its_tasks_run() -> None:
    assert told(waiting_array(9, "0-4%2")) == ["9 job.submitted"]
    assert told(task(10, 9, 0)) == ["9 job.submitted", "9_0 job.running"]
    assert told(task(9, 9, 4, "COMPLETED")) == ["9 job.submitted", "9_4 job.running", "9_4 job.completed"]
    assert told(waiting_array(9, "0-4", end=2).model_copy(update={"job_state": ("CANCELLED",)})) == [
        "9 job.submitted",
        "9 job.cancelled",
    ]


def test_a_requeued_run_is_another_one() -> None:
    first = facts(job(7, "RUNNING", submit=0), "alice")
    # Until slurmctld has given the new run its own submit time, the record is of neither.
    assert told(job(7, "PENDING+COMPLETING", nodes="w1", restart_cnt=1)) == []
    waiting = job(7, submit=60, restart_cnt=1, state_reason="BeginTime")
    assert told(waiting) == ["7 job.requeued"]
    second = facts(job(7, "COMPLETED", submit=60, start=200, end=210, restart_cnt=1), "alice")
    assert [occurrence.fact.kind for occurrence in second] == ["job.requeued", "job.running", "job.completed"]
    assert {occurrence.version for occurrence in first}.isdisjoint({occurrence.version for occurrence in second})


def test_an_owner_that_nobody_told_is_said_so() -> None:
    (fact,) = facts(job(7, user_id=None), "")
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
ALL = {
    ("job.submitted", "0"),
    ("job.running", "0"),
    ("job.requeued", "1"),
    ("job.running", "1"),
    ("job.completed", "1"),
}


def kinds(occurrences: list[Occurrence]) -> list[tuple[str, str]]:
    return [(occurrence.fact.kind, occurrence.version[-1]) for occurrence in occurrences]


@given(st.lists(st.sampled_from(LIFE), min_size=1))
def test_whatever_is_seen_and_however_often_each_fact_is_told_once(seen: list[JobRecord]) -> None:
    ledger = Ledger()
    news = [occurrence for record in seen for occurrence in ledger.news(facts(record, "alice"))]
    assert len(set(kinds(news))) == len(news)
    assert set(kinds(news)) <= ALL
    assert set(kinds(news)) == {fact for record in seen for fact in kinds(list(facts(record, "alice")))}


@given(st.lists(st.sampled_from(LIFE)), st.lists(st.sampled_from(LIFE)))
def test_a_ledger_that_was_read_back_tells_the_same(before: list[JobRecord], after: list[JobRecord]) -> None:
    first = Ledger()
    told_before = [occurrence for record in before for occurrence in first.news(facts(record, "alice"))]
    second = Ledger()
    for occurrence in told_before:
        second.add(occurrence.fact.job_id, occurrence.version, occurrence.fact.kind)
    news = [occurrence for record in after for occurrence in second.news(facts(record, "alice"))]
    assert set(kinds(news)).isdisjoint(kinds(told_before))
    assert second.unfinished() == (
        frozenset()
        if not (known := kinds([*told_before, *news]))
        or any(kind in JOB_ENDS and run == max(run for _, run in known) for kind, run in known)
        else {"7"}
    )


def test_an_array_is_unfinished_by_its_tasks() -> None:
    ledger = Ledger()
    ledger.news(facts(waiting_array(9, "0-1"), "alice"))
    assert ledger.unfinished() == {"9"}
    ledger.news(facts(task(10, 9, 0), "alice"))
    assert ledger.unfinished() == {"9_0"}
    ledger.news(facts(task(10, 9, 0, "COMPLETED"), "alice"))
    assert ledger.unfinished() == frozenset()


def test_forgotten_jobs_are_told_again() -> None:
    ledger = Ledger()
    assert ledger.news(facts(job(7), "alice"))
    ledger.keep({"8"})
    assert ledger.news(facts(job(7), "alice"))
    ledger.keep({"7"})
    assert not ledger.news(facts(job(7), "alice"))
