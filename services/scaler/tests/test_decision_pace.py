"""What wakes a control loop: news at once, the passing of time more seldom in a replica with many clusters."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from clusterra_contracts.heartbeat import Applied, Heartbeat, Stuck, Worker
from clusterra_runtime.shared_rate import SharedRate
from clusterra_scaler.decisions.lanes import TICK_SECONDS_PER_CLUSTER
from clusterra_scaler.planner.observed.observation import EDGE_FRESH_SECONDS, Edge
from fleet_examples import START
from hypothesis import given
from hypothesis import strategies as st

WORKER = Worker(name="general-large-1", shape="general-large", phase="running", started_at=START)
APPLIED = Applied(generation=3, fence=2, applied_at=START)
STUCK = Stuck(shape="general-large", cause="quota", workers=0, message="no more machines")


def heartbeat(generation: int, **changes: object) -> Heartbeat:
    told: dict[str, object] = {"workers": (WORKER,), "applied": APPLIED, "stuck": (), **changes}
    return Heartbeat.model_validate(
        {"generation": generation, "sent_at": START, "agent_version": "1", "substrate": "kubernetes", **told}
    )


@given(wanted=st.floats(0.1, 10), clusters=st.integers(0, 2000))
def test_all_clusters_together_are_decided_on_at_most_a_hundred_times_a_second(wanted: float, clusters: int) -> None:
    ticks = SharedRate(TICK_SECONDS_PER_CLUSTER)

    with ExitStack() as counted:
        for _ in range(clusters):
            counted.enter_context(ticks.shared())
        tick = ticks.interval(wanted)

    assert tick >= wanted
    assert tick == wanted or clusters / tick <= 100.0 + 1e-6
    assert ticks.interval(wanted) == wanted


@given(after=st.floats(0, EDGE_FRESH_SECONDS - 0.001))
def test_a_repeated_heartbeat_is_no_news(after: float) -> None:
    before, at = Edge().after(heartbeat(1), START), START + timedelta(seconds=after)

    report = before.after(heartbeat(2), at)

    assert report != before
    assert not report.is_news_after(before, at)


@pytest.mark.parametrize(
    "told",
    [
        {"workers": ()},
        {"workers": None},
        {"workers": (WORKER.model_copy(update={"phase": "failed"}),)},
        {"applied": APPLIED.model_copy(update={"generation": 4})},
        {"stuck": (STUCK,)},
        {"stuck": None},
        {"node_claims": ()},
    ],
)
def test_any_other_heartbeat_is_news(told: dict[str, object]) -> None:
    before, at = Edge().after(heartbeat(1), START), START + timedelta(seconds=5)

    assert before.after(heartbeat(2, **told), at).is_news_after(before, at)


def test_the_first_heartbeat_after_a_silence_is_news() -> None:
    before = Edge().after(heartbeat(1), START)
    unlisted = replace(before, listed_at=None)
    late = START + timedelta(seconds=EDGE_FRESH_SECONDS)

    assert before.after(heartbeat(2), late).is_news_after(before, late)
    assert unlisted.after(heartbeat(2), START).is_news_after(unlisted, START)
    assert Edge().after(heartbeat(1), START).is_news_after(Edge(), START)
