"""Decisions of different sizes do not wait for each other; one that takes too long is given up."""

import asyncio
import threading

import clusterra_scaler.decisions.lanes
import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_scaler.decisions.lanes import MEDIUM_QUEUE, SMALL_QUEUE, DecisionLanes, jobs_and_nodes, size
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.time_limit import DecisionOverdue
from fleet_examples import edge, group, observation, running, state
from fleet_examples import snapshot as snapshot_of
from hypothesis import given
from hypothesis import strategies as st

JOB = running("1", "w1", cpus=1)


@given(st.integers(0, 2000))
def test_size(count: int) -> None:
    snapshot = QueueSnapshot(generation=1, taken_at=now(), pending=None, running=(JOB,) * count, nodes=())

    bound = int(size(snapshot))

    assert jobs_and_nodes(snapshot) == count <= bound
    assert bound == 100 or count > bound / 10


async def test_arrays_count_with_all_their_tasks() -> None:
    arrays = tuple(group(str(number), count=40) for number in range(1, 30))
    snapshot = snapshot_of(arrays)

    with DecisionLanes() as lanes:
        thread = await lanes.run(snapshot, threading.current_thread)

    assert jobs_and_nodes(snapshot) == 29 * 40 > SMALL_QUEUE
    assert thread is not threading.main_thread()


def of(count: int) -> QueueSnapshot:
    return QueueSnapshot(generation=1, taken_at=now(), pending=None, running=(JOB,) * count, nodes=())


async def test_smaller_decisions_do_not_wait_for_larger_ones() -> None:
    release = threading.Event()
    with DecisionLanes() as lanes:
        large = asyncio.create_task(lanes.run(of(MEDIUM_QUEUE + 1), release.wait))
        try:
            for count in (0, SMALL_QUEUE, MEDIUM_QUEUE):
                decided = await asyncio.wait_for(lanes.run(of(count), lambda: "decided"), 90)

                assert decided == "decided"
            assert not large.done()
        finally:
            release.set()
        assert await large


@pytest.mark.parametrize("jobs", [SMALL_QUEUE, SMALL_QUEUE + 1])
async def test_a_decision_that_takes_too_long_is_given_up(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = tuple(group(str(number), memory_per_node_mib=1024 + number) for number in range(1, jobs + 1))
    seen = observation(snapshot_of(pending), edge(), name="packing", max_workers=1000)

    def compute() -> Decision:
        return decide(seen, state(), ObservationHistory())

    with DecisionLanes() as lanes:
        monkeypatch.setattr(clusterra_scaler.decisions.lanes, "MAX_CPU_SECONDS", 0.01)
        with pytest.raises(DecisionOverdue):
            await lanes.run(seen.snapshot, compute)

        monkeypatch.setattr(clusterra_scaler.decisions.lanes, "MAX_CPU_SECONDS", 60.0)
        decision = await lanes.run(seen.snapshot, compute)

    assert decision.changes
