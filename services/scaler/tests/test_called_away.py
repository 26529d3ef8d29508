"""Workers whose machine will be taken away: drained at once, room for nothing, replaced for jobs that wait, and taken
for gone as soon as they are."""

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.queue import NodeState
from clusterra_contracts.rpc.slurm import DeleteNode, Down, Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OURS, at, edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
LEAVES = worker(NAME, leaves=NOW + 120)
BUSY = node(NAME, used=1)
DRAINING = node(NAME, "MIXED", "DRAIN", used=1, reason=OURS)
GONE = Down(node=NAME, reason="its machine is gone")


def first(view: Observation, before: FleetState) -> Decision:
    return decide(view, before, ObservationHistory())


def test_it_is_drained_at_once_and_nothing_is_bought_while_its_jobs_run() -> None:
    before = state(target("compute-xs", 1), generation=1)
    shot = snapshot((), (running("1", NAME),), (BUSY,))
    decision = first(observation(shot, edge(LEAVES, applied=1)), before)
    assert decision.actions == (Drain(node=NAME, reason="its machine is taken away by 12:18:40 UTC"),)
    assert not decision.changes


def test_it_is_no_room_for_a_job_that_waits_and_is_never_undrained() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW + 1)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OURS)
    decision = first(observation(snapshot((group("1"),), nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert not decision.actions
    assert decision.state.target("compute-xs") == target("compute-xs", 2)


def test_once_it_runs_nothing_it_may_go() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW - 5)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OURS)
    decision = first(observation(snapshot(nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)


def test_what_an_edge_starts_in_its_place_is_cancelled_unless_a_job_waits() -> None:
    before = state(target("compute-xs", 1), generation=1)
    for pending, replicas in (((), 0), ((group("1"),), 1)):
        decision = first(observation(snapshot(pending), edge(applied=1)), before)
        assert decision.state.target("compute-xs") == target("compute-xs", replicas)


def test_one_that_boots_on_such_a_machine_is_no_room_either() -> None:
    before = state(target("compute-xs", 1), generation=1)
    latency = worker(NAME, "booting", started=NOW - 5, leaves=NOW + 120)
    decision = first(observation(snapshot((group("1"),)), edge(latency, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 2)


def later(
    there: Edge, *nodes: NodeState, stood: Worker = LEAVES, before: FleetState | None = None, listed: bool = True
) -> Decision:
    """Ten seconds after a worker stood, whose job Slurm takes to run."""
    before = before or state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW - 15)})
    shot = snapshot((), (running("1", NAME),), nodes, taken=NOW - 10)
    noticed = decide(observation(shot, edge(stood, heard=NOW - 10), now=NOW - 10), before, ObservationHistory())
    shot = snapshot((), (running("1", NAME),), nodes if listed else None)
    return decide(observation(shot, there), before, noticed.observation_history)


@pytest.mark.parametrize("left", [(), (worker(NAME, "failed", leaves=NOW + 110),), (worker("compute-xs-2"),)])
def test_once_it_is_gone_slurm_is_told(left: tuple[Worker, ...]) -> None:
    assert GONE in later(edge(*left), DRAINING).actions


def test_one_that_was_never_called_away_is_none_of_them() -> None:
    """Were it left out by mistake, its job would be lost."""
    for left in ((), (worker(NAME, "failed"),)):
        assert later(edge(*left), BUSY, stood=worker(NAME), before=state(target("compute-xs", 1))).actions == ()


def test_it_is_left_alone_while_it_is_there_or_nobody_knows() -> None:
    for there in (edge(LEAVES), edge(worker(NAME, "terminating")), edge(heard=NOW - 31), Edge()):
        assert later(there, DRAINING).actions == ()
    assert later(edge(), DRAINING, listed=False).actions == ()


def test_slurm_is_told_once() -> None:
    decision = later(edge(), node(NAME, "DOWN", "DRAIN", "NOT_RESPONDING", reason=OURS))
    assert decision.actions == ()
    assert decision.observation_history.interrupted == {NAME}
    assert (
        decide(observation(snapshot()), decision.state, decision.observation_history).observation_history.interrupted
        == frozenset()
    )


def test_the_next_worker_of_its_name_was_not_called_away() -> None:
    back = later(edge(worker(NAME, "booting", started=NOW - 1)), DRAINING)
    assert back.observation_history.interrupted == frozenset()
    shot = snapshot((), (running("1", NAME),), (DRAINING,))
    assert GONE not in decide(observation(shot, edge()), back.state, back.observation_history).actions


def test_a_victim_runs_nothing_and_is_forgotten_at_once() -> None:
    shot = snapshot(nodes=(node(NAME, "IDLE", "DRAIN", reason=OURS),))
    before = state(target("compute-xs", 0, NAME), generation=1)
    assert decide(observation(shot, edge()), before, ObservationHistory(interrupted=frozenset({NAME}))).actions == (
        DeleteNode(node=NAME),
    )
