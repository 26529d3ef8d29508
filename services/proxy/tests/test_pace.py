"""A replica polls each cluster the more seldom, the more it watches; a snapshot is valid accordingly longer."""

from contextlib import ExitStack

from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.pace import SECONDS_PER_CLUSTER, Pace
from hypothesis import given
from hypothesis import strategies as st


@given(st.floats(0.01, 10), st.integers(0, 3000))
def test_all_polls_together_are_bounded(poll_seconds: float, clusters: int) -> None:
    pace = Pace(poll_seconds)

    with ExitStack() as watched:
        for _ in range(clusters):
            watched.enter_context(pace.watched())
        polls_per_second = clusters / pace.poll_seconds

        assert polls_per_second <= 1 / SECONDS_PER_CLUSTER + 1e-6
        assert pace.poll_seconds == poll_seconds or polls_per_second >= 1 / SECONDS_PER_CLUSTER - 1e-6

    assert pace.poll_seconds == poll_seconds


@given(st.integers(0, 3000), st.floats(0, 30), st.floats(0, 30))
def test_a_snapshot_stays_valid_until_the_next_one_can_come(
    clusters: int, read_seconds: float, turn_seconds: float
) -> None:
    pace = Pace(0.5)
    pace.turn_seconds = turn_seconds
    intervals = Intervals(pace, quiet_seconds=5.0, margin_seconds=10.0)

    with ExitStack() as watched:
        for _ in range(clusters):
            watched.enter_context(pace.watched())

        next_poll = pace.poll_seconds + turn_seconds
        assert intervals.valid_seconds(read_seconds) >= 2 * read_seconds + 2 * next_poll + 5.0
