"""Heartbeats of an agent whose clock is wrong: it is heard again soon, and an older report never replaces a newer one.

Messages arrive late, out of order or not at all, as they may by two routes that each give up after 15 s.
"""

from datetime import timedelta
from itertools import pairwise

from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_scaler.planner.observed.observation import EDGE_FRESH_SECONDS, SILENT_SECONDS, Edge
from fleet_examples import NOW, at
from hypothesis import given
from hypothesis import strategies as st

LONGEST_DELAY = 15.0
SPACING = 120.0
"""Seconds between two steps of the clock."""
HEARD_AGAIN_SECONDS = LONGEST_DELAY + SILENT_SECONDS + HEARTBEAT_SECONDS + LONGEST_DELAY


def heartbeat(generation: int, sent: float) -> Heartbeat:
    """The version tells when it was really sent, which no field of a heartbeat does."""
    return Heartbeat(generation=generation, sent_at=at(NOW), agent_version=str(sent), substrate="process", workers=())


def sendings(offsets: list[float]) -> list[tuple[float, int]]:
    """When heartbeats are sent, and their generations: an agent starts again with each offset of its clock."""
    sent: list[tuple[float, int]] = []
    for restart, offset in enumerate(offsets):
        last = 0
        for number in range(int(SPACING / HEARTBEAT_SECONDS)):
            second = restart * SPACING + number * HEARTBEAT_SECONDS
            last = max(last + 1, int((1_800_000_000 + second + offset) * 1000))
            sent.append((second, last))
    return sent


@given(
    st.lists(st.floats(-7200, 7200), min_size=1, max_size=4),
    st.lists(st.floats(0, LONGEST_DELAY), min_size=96, max_size=96),
)
def test_an_agent_whose_clock_was_set_is_heard_again_in_a_bounded_time(
    offsets: list[float], delays: list[float]
) -> None:
    sent = sendings(offsets)
    arrivals = sorted((second + delay, second, number) for (second, number), delay in zip(sent, delays, strict=False))
    edge, counted = Edge(), []

    for arrived, second, number in arrivals:
        before = edge
        edge = edge.after(heartbeat(number, second), at(NOW + arrived))
        if edge is not before:
            counted.append((arrived, second))

    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(counted)]
    assert max(gaps, default=0) <= HEARD_AGAIN_SECONDS
    assert arrivals[-1][0] - counted[-1][0] <= HEARD_AGAIN_SECONDS
    assert all(arrived - second <= LONGEST_DELAY for arrived, second in counted)


@given(st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, LONGEST_DELAY)), min_size=1, max_size=60))
def test_a_late_heartbeat_never_replaces_a_newer_one(sent: list[tuple[float, float]]) -> None:
    second, arrivals = 0.0, []
    for number, (pause, delay) in enumerate(sent, start=1):
        second += pause
        arrivals.append((second + delay, number))

    edge, counted = Edge(), []
    for arrived, number in sorted(arrivals):
        before = edge
        edge = edge.after(heartbeat(number, 0), at(NOW + arrived))
        if edge is not before:
            counted.append(number)

    assert counted == sorted(counted)


def test_an_hour_back() -> None:
    edge = Edge().after(heartbeat(3_600_000, 0), at(NOW))

    early = edge.after(heartbeat(1, 5), at(NOW + 5))
    late = edge.after(heartbeat(2, 30), at(NOW + SILENT_SECONDS))

    assert early is edge
    assert late.is_fresh(at(NOW + SILENT_SECONDS))
    assert not edge.is_fresh(at(NOW) + timedelta(seconds=EDGE_FRESH_SECONDS)), "nothing was removed meanwhile"
