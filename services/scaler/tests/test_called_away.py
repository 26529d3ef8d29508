"""Workers whose machine will be taken away: drained at once, room for nothing, and replaced for jobs that wait."""

from clusterra_contracts.slurm_rpc import Drain
from clusterra_scaler.planner.decision import Decision, decide
from clusterra_scaler.planner.seen import Seen
from clusterra_scaler.planner.sightings import Sightings
from clusterra_scaler.planner.state import FleetState
from fleet_examples import NOW, OURS, at, edge, group, node, running, seen, snapshot, state, target, worker

NAME = "compute-xs-1"
LEAVES = worker(NAME, leaves=NOW + 120)
BUSY = node(NAME, used=1)


def first(view: Seen, before: FleetState) -> Decision:
    return decide(view, before, Sightings())


def test_it_is_drained_at_once_and_nothing_is_bought_while_its_jobs_run() -> None:
    before = state(target("compute-xs", 1), generation=1)
    shot = snapshot((), (running("1", NAME),), (BUSY,))
    decision = first(seen(shot, edge(LEAVES, applied=1)), before)
    assert decision.actions == (Drain(node=NAME, reason="its machine is taken away by 12:18:40 UTC"),)
    assert not decision.changes


def test_it_is_no_room_for_a_job_that_waits_and_is_never_undrained() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW + 1)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OURS)
    decision = first(seen(snapshot((group("1"),), nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert not decision.actions
    assert decision.state.target("compute-xs") == target("compute-xs", 2)


def test_once_it_runs_nothing_it_may_go() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={NAME: at(NOW - 5)})
    drained = node(NAME, "IDLE", "DRAIN", reason=OURS)
    decision = first(seen(snapshot(nodes=(drained,)), edge(LEAVES, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)


def test_what_an_edge_starts_in_its_place_is_cancelled_unless_a_job_waits() -> None:
    before = state(target("compute-xs", 1), generation=1)
    for pending, replicas in (((), 0), ((group("1"),), 1)):
        decision = first(seen(snapshot(pending), edge(applied=1)), before)
        assert decision.state.target("compute-xs") == target("compute-xs", replicas)


def test_one_that_boots_on_such_a_machine_is_no_room_either() -> None:
    before = state(target("compute-xs", 1), generation=1)
    boots = worker(NAME, "booting", started=NOW - 5, leaves=NOW + 120)
    decision = first(seen(snapshot((group("1"),)), edge(boots, applied=1)), before)
    assert decision.state.target("compute-xs") == target("compute-xs", 2)
