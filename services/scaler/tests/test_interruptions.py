"""Workers whose machine will be interrupted: drained at once, replaced for waiting jobs, set down once gone."""

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.queue import NodeState
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Down, Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
LEAVES = worker(NAME, leaves=NOW + 120)
BUSY = node(NAME, used=1)
DRAINING = node(NAME, "MIXED", "DRAIN", used=1, reason=OUR_DRAIN)
GONE = Down(node=NAME, reason="its machine is gone")


def first_decision(view: Observation, before: FleetState) -> Decision:
    return decide(view, before, ObservationHistory())


def test_an_interrupted_worker_is_drained_at_once_and_not_replaced_while_busy() -> None:
    before = state(target("compute-xs", 1), generation=1)
    shot = snapshot((), (running("1", NAME),), (BUSY,))
    decision = first_decision(observation(shot, edge(LEAVES, applied=1)), before)
    assert decision.actions == (Drain(node=NAME, reason="its machine is taken away by 12:18:40 UTC"),)
    assert not decision.changes


def test_an_interrupted_worker_takes_no_job_and_is_never_undrained() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW + 1)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OUR_DRAIN)
    decision = first_decision(observation(snapshot((group("1"),), nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert not decision.actions
    assert decision.state.target("compute-xs") == target("compute-xs", 2)


def test_an_idle_interrupted_worker_becomes_a_victim() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW - 5)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OUR_DRAIN)
    decision = first_decision(observation(snapshot(nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)


def test_its_replacement_is_cancelled_unless_a_job_waits() -> None:
    before = state(target("compute-xs", 1), generation=1)
    for pending, replicas in (((), 0), ((group("1"),), 1)):
        decision = first_decision(observation(snapshot(pending), edge(applied=1)), before)
        assert decision.state.target("compute-xs") == target("compute-xs", replicas)


def test_a_worker_booting_on_an_interrupted_machine_takes_no_job() -> None:
    before = state(target("compute-xs", 1), generation=1)
    booting = worker(NAME, "booting", started=NOW - 5, leaves=NOW + 120)
    decision = first_decision(observation(snapshot((group("1"),)), edge(booting, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 2)


def ten_seconds_later(
    there: Edge, *nodes: NodeState, stood: Worker = LEAVES, before: FleetState | None = None, listed: bool = True
) -> Decision:
    """Decides ten seconds after an observation with a standing worker and its running job."""
    before = before or state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW - 15)})
    shot = snapshot((), (running("1", NAME),), nodes, taken=NOW - 10)
    noticed = decide(observation(shot, edge(stood, heard=NOW - 10), now=NOW - 10), before, ObservationHistory())
    shot = snapshot((), (running("1", NAME),), nodes if listed else None)
    return decide(observation(shot, there), before, noticed.observation_history)


@pytest.mark.parametrize("left", [(), (worker(NAME, "failed", leaves=NOW + 110),), (worker("compute-xs-2"),)])
def test_its_node_is_set_down_once_it_is_gone(left: tuple[Worker, ...]) -> None:
    assert GONE in ten_seconds_later(edge(*left), DRAINING).actions


def test_a_worker_without_an_interruption_is_never_set_down() -> None:
    for left in ((), (worker(NAME, "failed"),)):
        assert (
            ten_seconds_later(edge(*left), BUSY, stood=worker(NAME), before=state(target("compute-xs", 1))).actions
            == ()
        )


def test_its_node_is_left_alone_while_it_exists_or_the_list_is_unknown() -> None:
    for there in (edge(LEAVES), edge(worker(NAME, "terminating")), edge(heard=NOW - 31), Edge()):
        assert ten_seconds_later(there, DRAINING).actions == ()
    assert ten_seconds_later(edge(), DRAINING, listed=False).actions == ()


def test_its_node_is_set_down_once() -> None:
    decision = ten_seconds_later(edge(), node(NAME, "DOWN", "DRAIN", "NOT_RESPONDING", reason=OUR_DRAIN))

    assert decision.actions == ()
    assert decision.observation_history.interrupted == {NAME}
    assert (
        decide(observation(snapshot()), decision.state, decision.observation_history).observation_history.interrupted
        == frozenset()
    )


def test_the_next_worker_of_that_name_is_not_interrupted() -> None:
    back = ten_seconds_later(edge(worker(NAME, "booting", started=NOW - 1)), DRAINING)
    assert back.observation_history.interrupted == frozenset()
    shot = snapshot((), (running("1", NAME),), (DRAINING,))
    assert GONE not in decide(observation(shot, edge()), back.state, back.observation_history).actions


def test_the_record_of_an_interrupted_victim_is_deleted_at_once() -> None:
    shot = snapshot(nodes=(node(NAME, "IDLE", "DRAIN", reason=OUR_DRAIN),))
    before = state(target("compute-xs", 0, NAME), generation=1)
    assert decide(observation(shot, edge()), before, ObservationHistory(interrupted=frozenset({NAME}))).actions == (
        DeleteNode(node=NAME),
    )
