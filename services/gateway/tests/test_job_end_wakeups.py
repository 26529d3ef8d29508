"""When a sweep visits the records that wait for jobs."""

import math

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.bus import job_end_wakeups
from clusterra_gateway.bus.job_end_wakeups import ARRAY_SECONDS, SOON_SECONDS, WAITING_SECONDS, JobEndWakeups
from test_staging_sweep import REF, ended

ONE, OTHER = (REF, "1"), (REF, "2")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the wakeups, which stands still."""
    at = [1000.0]
    monkeypatch.setattr(job_end_wakeups, "time", type("Clock", (), {"monotonic": lambda: at[0]}))
    return at


def due_at(clock: list[float], wakeups: JobEndWakeups, seconds: float) -> list[tuple[ClusterRef, str]]:
    clock[0] = 1000.0 + seconds
    found = wakeups.due((ONE, OTHER))
    clock[0] = 1000.0
    return found


def test_a_record_is_visited_when_one_of_its_jobs_has_ended_and_seldom_else(clock: list[float]) -> None:
    wakeups = JobEndWakeups()
    assert wakeups.due((ONE, OTHER)) == [ONE, OTHER]
    wakeups.wait(ONE, ("42", "43"))
    wakeups.wait(OTHER, ("44",))
    before = due_at(clock, wakeups, WAITING_SECONDS - 1), due_at(clock, wakeups, WAITING_SECONDS)

    wakeups.on_event(REF, ended("43"))

    assert before == ([], [ONE, OTHER])
    assert due_at(clock, wakeups, 0) == [ONE]
    assert wakeups.woken.is_set()


def test_an_array_is_visited_once_in_a_while_however_many_of_its_tasks_end(clock: list[float]) -> None:
    wakeups = JobEndWakeups()
    wakeups.wait(ONE, ("42",))
    wakeups.wait(OTHER, ("43",))

    wakeups.on_event(REF, ended("42_1"))
    clock[0] += 1
    wakeups.on_event(REF, ended("42_2"))
    clock[0] -= 1

    assert not wakeups.woken.is_set()
    assert due_at(clock, wakeups, ARRAY_SECONDS - 0.1) == []
    assert due_at(clock, wakeups, ARRAY_SECONDS) == [ONE]


def test_an_end_that_was_told_before_the_wait_counts_once(clock: list[float]) -> None:
    wakeups = JobEndWakeups()
    wakeups.on_event(REF, ended("42"))

    wakeups.wait(ONE, ("42",))
    first = due_at(clock, wakeups, SOON_SECONDS)
    wakeups.wait(ONE, ("42",))

    assert ONE in first
    assert ONE not in due_at(clock, wakeups, WAITING_SECONDS - 1)


def test_a_visit_is_routine_until_an_event_tells_an_end() -> None:
    wakeups = JobEndWakeups()
    wakeups.wait(ONE, ("42",))
    wakeups.wait(OTHER, ("43",))

    wakeups.on_event(REF, ended("43"))

    assert [wakeups.place(key).routine for key in (ONE, OTHER, (REF, "3"))] == [True, False, False]
    wakeups.end_wait(ONE)
    assert not wakeups.place(ONE).routine


def test_a_record_is_not_due_during_its_visit_unless_one_of_its_jobs_ends(clock: list[float]) -> None:
    wakeups = JobEndWakeups()
    wakeups.wait(ONE, ("42",))

    with wakeups.visit(ONE, otherwise_seconds=7.0):
        quiet = ONE in due_at(clock, wakeups, WAITING_SECONDS)
        wakeups.on_event(REF, ended("42"))
        notified = ONE in due_at(clock, wakeups, 0)
        wakeups.wait(ONE, ("42",))

    assert (quiet, notified) == (False, True)
    assert ONE in due_at(clock, wakeups, SOON_SECONDS)
    assert not wakeups.place(ONE).routine


def test_a_visit_that_plans_nothing_is_repeated(clock: list[float]) -> None:
    wakeups = JobEndWakeups()

    with pytest.raises(ZeroDivisionError), wakeups.visit(ONE, otherwise_seconds=7.0):
        raise ZeroDivisionError

    assert ONE not in due_at(clock, wakeups, 6.9)
    assert ONE in due_at(clock, wakeups, 7)


def test_a_record_that_is_gone_is_forgotten(clock: list[float]) -> None:
    wakeups = JobEndWakeups()
    wakeups.visit_in(ONE, math.inf)
    wakeups.wait(ONE, ("42",))

    wakeups.due((OTHER,))
    wakeups.on_event(REF, ended("42"))

    assert not wakeups.woken.is_set()
    assert due_at(clock, wakeups, 0) == [ONE, OTHER]
