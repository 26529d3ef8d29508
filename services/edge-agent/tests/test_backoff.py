"""The back-off of a shape whose workers keep failing."""

from clusterra_edge_agent.substrate.backoff import BASE_SECONDS, LIMIT_SECONDS, STABLE_SECONDS, CrashBackoff
from hypothesis import given
from hypothesis import strategies as st


def test_each_consecutive_failure_doubles_the_wait_up_to_the_limit() -> None:
    backoff, now, waits = CrashBackoff(), 100.0, []
    for _ in range(9):
        backoff.record_failure("compute-xs", lived_seconds=0.1, now=now)
        waits.append(backoff.remaining_seconds("compute-xs", now))
        now += waits[-1]
        assert backoff.remaining_seconds("compute-xs", now) == 0

    assert waits == [1, 2, 4, 8, 16, 32, LIMIT_SECONDS, LIMIT_SECONDS, LIMIT_SECONDS]
    assert backoff.consecutive("compute-xs") == 9


def test_workers_that_end_together_count_once() -> None:
    backoff = CrashBackoff()
    for moment in (10.0, 10.1, 10.9):
        backoff.record_failure("compute-xs", lived_seconds=5, now=moment)
    assert backoff.remaining_seconds("compute-xs", 10.0) == BASE_SECONDS
    assert backoff.consecutive("compute-xs") == 1


def test_other_shapes_do_not_wait() -> None:
    backoff = CrashBackoff()
    backoff.record_failure("compute-xs", lived_seconds=0, now=1)
    assert backoff.remaining_seconds("general-xs", 1) == 0


def test_a_worker_that_lived_long_restarts_the_count() -> None:
    backoff = CrashBackoff()
    for moment in (0.0, 10.0, 20.0):
        backoff.record_failure("compute-xs", lived_seconds=0, now=moment)
    assert backoff.remaining_seconds("compute-xs", 20) == 4
    backoff.record_failure("compute-xs", lived_seconds=STABLE_SECONDS, now=30)
    assert backoff.remaining_seconds("compute-xs", 30) == BASE_SECONDS


def test_a_failure_long_after_the_last_one_restarts_the_count() -> None:
    backoff = CrashBackoff()
    for moment in (0.0, 10.0, 20.0):
        backoff.record_failure("compute-xs", lived_seconds=0, now=moment)
    backoff.record_failure("compute-xs", lived_seconds=0, now=1000)
    assert backoff.remaining_seconds("compute-xs", 1000) == BASE_SECONDS


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200))))
def test_the_wait_after_a_failure_is_positive_and_bounded(
    failures: list[tuple[float, float]],
) -> None:
    backoff, now = CrashBackoff(), 0.0
    for passed, lived in failures:
        now += passed
        backoff.record_failure("compute-xs", lived_seconds=lived, now=now)
        assert 0 < backoff.remaining_seconds("compute-xs", now) <= LIMIT_SECONDS
