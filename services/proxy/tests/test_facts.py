from collections.abc import Iterable

from clusterra_contracts.events import JOB_ENDS
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_facts import UNKNOWN_UID, Happening, Ledger, Occurrence, happenings, occurrence
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, task, waiting_array


def told(record: JobRecord) -> list[str]:
    return [f"{happening.job_id} {happening.kind}" for happening in happenings(record)]


def facts(record: JobRecord, user: str = "alice") -> list[Occurrence]:
    return [occurrence(happening, record, user) for happening in happenings(record)]


def test_a_finished_job_proves_its_whole_life() -> None:
    occurrences = facts(job(7, "COMPLETED", submit=0, start=3, end=5))
    assert [(each.fact.kind, each.time) for each in occurrences] == [
        ("job.submitted", at(0)),
        ("job.running", at(3)),
        ("job.completed", at(5)),
    ]
    assert {each.version for each in occurrences} == {f"{int(at(0).timestamp())}.0"}
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
    first = happenings(job(7, "RUNNING", submit=0))
    # Until slurmctld has given the new run its own submit time, the record is of neither.
    assert told(job(7, "PENDING+COMPLETING", nodes="w1", restart_cnt=1)) == []
    waiting = job(7, submit=60, restart_cnt=1, state_reason="BeginTime")
    assert told(waiting) == ["7 job.requeued"]
    second = happenings(job(7, "COMPLETED", submit=60, start=200, end=210, restart_cnt=1))
    assert [happening.kind for happening in second] == ["job.requeued", "job.running", "job.completed"]
    assert {happening.version for happening in first}.isdisjoint(happening.version for happening in second)


def test_an_owner_that_nobody_told_is_said_so() -> None:
    (fact,) = facts(job(7, user_id=None))
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


def kinds(happened: Iterable[Happening]) -> list[tuple[str, str]]:
    return [(happening.kind, happening.version[-1]) for happening in happened]


@given(st.lists(st.sampled_from(LIFE), min_size=1))
def test_whatever_is_seen_and_however_often_each_fact_is_told_once(seen: list[JobRecord]) -> None:
    ledger = Ledger()
    news = [happening for record in seen for happening in ledger.news(happenings(record))]
    assert len(set(kinds(news))) == len(news)
    assert set(kinds(news)) <= ALL
    assert set(kinds(news)) == {fact for record in seen for fact in kinds(happenings(record))}


@given(st.lists(st.sampled_from(LIFE)), st.lists(st.sampled_from(LIFE)))
def test_a_ledger_that_was_read_back_tells_the_same(before: list[JobRecord], after: list[JobRecord]) -> None:
    first = Ledger()
    told_before = [happening for record in before for happening in first.news(happenings(record))]
    second = Ledger()
    for happening in told_before:
        second.add(happening.job_id, happening.version, happening.kind)
    news = [happening for record in after for happening in second.news(happenings(record))]
    assert set(kinds(news)).isdisjoint(kinds(told_before))
    known = kinds([*told_before, *news])
    last_run = max((run for _, run in known), default="")
    over = not known or any(kind in JOB_ENDS and run == last_run for kind, run in known)
    assert second.unfinished() == (frozenset() if over else {"7"})


def test_an_array_is_unfinished_by_its_tasks() -> None:
    ledger = Ledger()
    ledger.news(happenings(waiting_array(9, "0-1")))
    assert ledger.unfinished() == {"9"}
    ledger.news(happenings(task(10, 9, 0)))
    assert ledger.unfinished() == {"9_0"}
    ledger.news(happenings(task(10, 9, 0, "COMPLETED")))
    assert ledger.unfinished() == frozenset()


def test_forgotten_jobs_are_told_again() -> None:
    ledger = Ledger()
    assert ledger.news(happenings(job(7)))
    ledger.keep({"8"})
    assert ledger.news(happenings(job(7)))
    ledger.keep({"7"})
    assert not ledger.news(happenings(job(7)))
