"""What a control loop leaves out: decisions on a repeated snapshot, and records that the next scaler can do without."""

from datetime import timedelta
from typing import Any, cast

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_scaler.control_loop import ControlLoop, FencedLease
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.fleets import Fleets, Recorded
from clusterra_scaler.planner.observed.observation import Edge, only_busy, same_queue
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import START, group, node, running
from fleet_examples import binding as binding_of
from fleet_examples import snapshot as snapshot_of
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("general-large-1", "general-large-2")
WORKERS = tuple(Worker(name=name, shape="general-large", phase="running", started_at=START) for name in NAMES)

EDGE = Edge(workers=WORKERS, listed_at=START)


def queue(generation: int, **changes: object) -> QueueSnapshot:
    """A queue of nothing but running jobs, on all workers."""
    nodes = tuple(node(name, used=4).model_copy(update={"states": ("MIXED",)}) for name in NAMES)
    jobs = tuple(running(str(number), name, cpus=4) for number, name in enumerate(NAMES, start=1))
    told = {"generation": generation, "running": jobs, "nodes": nodes, **changes}
    return snapshot_of(()).model_copy(update=told)


ANOTHER: list[dict[str, object]] = [
    {"pending": (group("9"),)},
    {"pending": None},
    {"running": ()},
    {"running": None},
    {"nodes": (queue(1).nodes or ())[:1]},
    {"nodes": None},
    {"unreadable_jobs": 1},
    {"unreadable_nodes": 1},
]
contents = st.sampled_from([{}, *ANOTHER])


def loop_of() -> ControlLoop:
    """A control loop that is not run."""
    lease = FencedLease(1, lambda: True)
    ref = ClusterRef(tenant="acme", cluster="main")
    with DecisionLanes() as lanes:
        return ControlLoop(ref, binding_of(), lease, cast(Fleets, None), cast(Any, None), lanes)


async def after_a_decision(loop: ControlLoop) -> None:
    """Let the loop find out how long it may wait."""
    loop._edge = EDGE
    loop._input_arrived.set()
    await loop._wait(Recorded(FleetState.initial(START), 1))
    loop._input_arrived.clear()


@pytest.mark.parametrize("changes", ANOTHER)
def test_another_list_is_another_queue(changes: dict[str, object]) -> None:
    assert same_queue(queue(1), queue(2, taken_at=START + timedelta(seconds=5), valid_seconds=99.0))
    assert not same_queue(queue(1), queue(1, **changes))


@given(st.lists(contents, min_size=1, max_size=8))
async def test_a_snapshot_is_decided_on_unless_it_repeats_a_busy_one(told: list[dict[str, object]]) -> None:
    loop = loop_of()
    before: dict[str, object] | None = None
    for generation, changes in enumerate(told, start=1):
        loop.on_snapshot(queue(generation, **changes))

        quiet = before == changes and only_busy(queue(generation, **changes), EDGE)
        assert loop._input_arrived.is_set() is not quiet
        # What is decided from, whenever that is, is the newest.
        assert loop._snapshot == queue(generation, **changes)
        await after_a_decision(loop)
        before = changes
    loop.remove_metrics()


moments = st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds))
states = st.builds(
    FleetState,
    decided_at=st.just(START),
    drains=st.dictionaries(st.sampled_from(NAMES), moments),
    undrains=st.dictionaries(st.sampled_from(NAMES), moments),
    moves=st.dictionaries(st.sampled_from(NAMES), moments),
)


@given(states, states)
def test_a_state_is_stored_unless_all_that_is_new_are_moves_that_are_over(
    recorded: FleetState, state: FleetState
) -> None:
    begun = {name: at for name, at in state.moves.items() if recorded.moves.get(name) != at}
    drains = (state.drains, state.undrains) != (recorded.drains, recorded.undrains)

    assert state.must_be_stored_after(recorded) is (drains or bool(begun))
    assert not state.must_be_stored_after(state)
