"""Victims that Slurm shows not drained, or busy, are kept: somebody resumed the node, or Slurm lost the drain."""

import pytest
from clusterra_contracts.heartbeat import WorkerPhase
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
DRAINED = node(NAME, "IDLE", "DRAIN", reason=OUR_DRAIN)
RESUMED = node(NAME, idle_for=1)
NAMED = state(target("compute-xs", 0, NAME), generation=1)


def decide_on(record: NodeState, before: FleetState, *runs: RunningJob, there: Edge | None = None) -> Decision:
    shot = snapshot((), runs, (record,))
    return decide(observation(shot, there or edge(worker(NAME))), before, ObservationHistory())


@pytest.mark.parametrize(
    ("record", "runs"),
    [
        (RESUMED, ()),
        (RESUMED, (running("7", NAME),)),
        (node(NAME, used=1), (running("7", NAME),)),
        (node(NAME, "IDLE", "NOT_RESPONDING"), ()),
        (DRAINED, (running("7", NAME),)),
        (node(NAME, "MIXED", "DRAIN", used=1, reason=OUR_DRAIN), ()),
        (node(NAME, "IDLE", "DRAIN", "COMPLETING", reason=OUR_DRAIN), ()),
        (DRAINED.model_copy(update={"memory_allocated_mib": 1}), ()),
    ],
)
def test_a_victim_that_is_not_drained_or_busy_is_taken_back(record: NodeState, runs: tuple[RunningJob, ...]) -> None:
    decision = decide_on(record, NAMED, *runs)

    assert not decision.state.victims
    assert decision.state.generation == 2
    assert decision.changes[0].reason == f"{NAME} kept: not drained or busy in Slurm"

    again = decide(observation(snapshot((), runs, (record,)), edge(worker(NAME))), decision.state, ObservationHistory())

    assert not again.changes


@pytest.mark.parametrize("record", [DRAINED, node(NAME, "IDLE", "DRAIN", reason="disk is broken")])
def test_a_victim_that_is_drained_and_idle_stays_named(record: NodeState) -> None:
    assert decide_on(record, NAMED).state.victims == {NAME}


@pytest.mark.parametrize("phase", ["terminating", "failed"])
def test_a_victim_that_the_edge_has_removed_stays_named(phase: WorkerPhase) -> None:
    assert decide_on(RESUMED, NAMED, there=edge(worker(NAME, phase))).state.victims == {NAME}
    assert decide_on(RESUMED, NAMED, there=edge()).state.victims == {NAME}
    assert decide_on(RESUMED, NAMED, there=edge(worker(NAME), heard=NOW - 60)).state.victims == {NAME}


def test_a_victim_is_taken_back_although_the_queue_cannot_be_read() -> None:
    shot = snapshot(nodes=(RESUMED,)).model_copy(update={"pending": None, "running": None})
    decision = decide(observation(shot, edge(worker(NAME))), NAMED, ObservationHistory())

    assert not decision.state.victims
    assert decision.actions == ()


def test_a_worker_taken_back_counts_only_once_the_edge_keeps_it_for_certain() -> None:
    """The edge may have removed it already. It would start another worker in its place, beyond the limits."""
    kept = decide_on(RESUMED, NAMED).state

    assert kept.target("compute-xs") == target("compute-xs", 0)

    unaware = decide_on(RESUMED, kept, there=edge(worker(NAME), applied=1))

    assert not unaware.changes

    aware = decide_on(RESUMED, kept, there=edge(worker(NAME), applied=2))

    assert aware.state.target("compute-xs") == target("compute-xs", 1)
    assert aware.state.taken_back == {}


def test_the_scale_down_of_a_worker_taken_back_starts_again() -> None:
    resumed_long_ago = node(NAME, idle_for=500)
    kept = decide_on(resumed_long_ago, NAMED)

    assert kept.actions == (Drain(node=NAME, reason="idle for 500 s"),)

    drained = kept.state.with_drain(NAME, at(NOW - 1))
    named = decide_on(DRAINED, drained)

    assert named.state.target("compute-xs") == target("compute-xs", 0, NAME)
    assert named.state.taken_back == {}
