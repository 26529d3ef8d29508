"""Two-phase scale-down: drain, observe idle, name the victim, delete its record. In doubt everything stays."""

from typing import Any

import pytest
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
DRAINED = node(NAME, "IDLE", "DRAIN", reason=OUR_DRAIN)


def fleet_of_one(drained_at: float | None = None) -> FleetState:
    """A fleet of one worker, whose drain was accepted at this time."""
    return state(target("compute-xs", 1), generation=1, drains={} if drained_at is None else {NAME: at(drained_at)})


def decide_on(
    record: NodeState,
    before: FleetState,
    *runs: RunningJob,
    there: Edge | None = None,
    taken: float = NOW,
    observation_history: ObservationHistory | None = None,
    **policy: Any,
) -> Decision:
    shot = snapshot((), runs, (record,), taken=taken)
    return decide(
        observation(shot, there or edge(worker(NAME)), **policy), before, observation_history or ObservationHistory()
    )


def test_an_idle_worker_is_drained_after_its_keep_alive_time() -> None:
    assert decide_on(node(NAME, idle_for=149), fleet_of_one()).actions == ()
    assert decide_on(node(NAME, idle_for=151), fleet_of_one()).actions == (Drain(node=NAME, reason="idle for 151 s"),)


def test_idle_time_counts_from_the_first_observation_where_slurm_tells_none() -> None:
    record = node(NAME, idle_for=None)
    observation_history = decide_on(record, fleet_of_one(), idle_seconds=10).observation_history
    early = decide(
        observation(snapshot((), (), (record,)), edge(worker(NAME)), now=NOW + 9, idle_seconds=10),
        fleet_of_one(),
        observation_history,
    )

    assert early.actions == ()

    view = observation(snapshot((), (), (record,)), edge(worker(NAME)), now=NOW + 11, idle_seconds=10)

    assert [type(action) for action in decide(view, fleet_of_one(), early.observation_history).actions] == [Drain]


def test_idle_time_never_starts_before_registration() -> None:
    record = node(NAME, idle_for=900).model_copy(update={"registered_at": at(NOW - 5)})
    assert decide_on(record, fleet_of_one()).actions == ()


def test_a_worker_that_a_pending_job_will_use_is_kept() -> None:
    shot = snapshot((group("1"),), nodes=(node(NAME),))
    assert decide(observation(shot, edge(worker(NAME))), fleet_of_one(), ObservationHistory()).actions == ()


def test_a_worker_whose_reservation_has_begun_is_kept() -> None:
    assert decide_on(node(NAME, "IDLE", "RESERVED"), fleet_of_one()).actions == ()


def test_a_worker_that_is_idle_after_its_drain_becomes_a_victim() -> None:
    decision = decide_on(DRAINED, fleet_of_one(NOW - 1))
    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)
    assert decision.state.drains == {}
    assert decision.changes[0].victims == (NAME,)
    assert decision.changes[0].reason == f"{NAME} drained and idle"


@pytest.mark.parametrize(
    ("record", "runs", "taken"),
    [
        (DRAINED, (), NOW - 1),
        (DRAINED, (), NOW - 1.5),
        (DRAINED, (running("7", NAME),), NOW),
        (node(NAME, "MIXED", "DRAIN", used=1, reason=OUR_DRAIN), (), NOW),
        (node(NAME, "IDLE", "DRAIN", "COMPLETING", reason=OUR_DRAIN), (), NOW),
        (DRAINED.model_copy(update={"cpus_allocated": 1}), (), NOW),
        (DRAINED.model_copy(update={"memory_allocated_mib": 1}), (), NOW),
        (DRAINED.model_copy(update={"states": ("UNKNOWN", "DRAIN")}), (), NOW),
    ],
)
def test_a_drained_worker_that_may_be_busy_is_kept(
    record: NodeState, runs: tuple[RunningJob, ...], taken: float
) -> None:
    decision = decide_on(record, fleet_of_one(NOW - 1), *runs, taken=taken)
    assert not decision.state.victims
    assert decision.state.drains == {NAME: at(NOW - 1)}


def test_a_drain_with_a_foreign_reason_is_forgotten() -> None:
    decision = decide_on(node(NAME, "IDLE", "DRAIN", reason="disk is broken"), fleet_of_one(NOW - 1))
    assert not decision.state.victims
    assert decision.state.drains == {}
    assert decision.actions == ()


def test_a_drain_that_was_cancelled_by_others_starts_again() -> None:
    decision = decide_on(node(NAME, idle_for=1), fleet_of_one(NOW - 1))
    assert not decision.state.victims
    assert decision.state.drains == {}


def test_our_drain_without_a_record_is_requested_again() -> None:
    """The answer was lost, or another replica asked: the time of acceptance is unknown."""
    decision = decide_on(DRAINED, fleet_of_one())
    assert not decision.state.victims
    assert decision.actions == (Drain(node=NAME, reason="not needed"),)


def test_a_pending_undrain_keeps_the_worker() -> None:
    before = fleet_of_one(NOW - 1).model_copy(update={"undrains": {NAME: at(NOW - 30)}})
    assert not decide_on(DRAINED, before).state.victims
    settled = fleet_of_one(NOW - 1).model_copy(update={"undrains": {NAME: at(NOW - 61)}})
    assert decide_on(DRAINED, settled).state.victims == {NAME}


def test_no_answer_settles_undrains_of_an_earlier_replica() -> None:
    before = fleet_of_one().model_copy(update={"undrains": {NAME: at(NOW - 5)}})

    assert before.with_undrain_settled(NAME).undrains == {}

    after = ObservationHistory.after_takeover(before)

    assert after.lost_undrains == {NAME}
    assert decide_on(node(NAME), before, observation_history=after).observation_history.lost_undrains == {NAME}

    long_ago = fleet_of_one().model_copy(update={"undrains": {NAME: at(NOW - 61)}})

    assert decide_on(node(NAME), long_ago, observation_history=after).observation_history.lost_undrains == frozenset()


@pytest.mark.parametrize("missing", ["pending", "running", "nodes", "workers"])
def test_without_one_of_the_lists_nothing_is_drained_or_removed(missing: str) -> None:
    shot = snapshot((), (), (DRAINED, node("compute-xs-2", idle_for=900)))
    there = edge(worker(NAME), worker("compute-xs-2"))
    if missing == "workers":
        there = edge(worker(NAME), worker("compute-xs-2"), heard=NOW - 31)
    else:
        shot = shot.model_copy(update={missing: None})
    before = state(target("compute-xs", 2), generation=1, drains={NAME: at(NOW - 1)})
    decision = decide(observation(shot, there), before, ObservationHistory())

    assert not decision.changes
    assert decision.state.drains == before.drains
    assert decision.actions == ()


def test_a_node_that_is_down_for_long_is_drained() -> None:
    down = node(NAME, "DOWN", idle_for=299)
    assert decide_on(down, fleet_of_one(), ghost_seconds=300).actions == ()
    assert [type(action) for action in decide_on(down, fleet_of_one(), ghost_seconds=200).actions] == [Drain]
    assert decide_on(node(NAME, "DOWN", "DRAIN", reason=OUR_DRAIN), fleet_of_one(NOW - 1)).state.victims == {NAME}


NAMED = state(target("compute-xs", 0, NAME), generation=1)


def test_a_leaving_victim_stays_named() -> None:
    leaving = decide_on(DRAINED, NAMED, there=edge(worker(NAME, "terminating")))

    assert not leaving.changes
    assert leaving.actions == ()


def test_the_record_of_a_victim_is_deleted_once_it_is_gone() -> None:
    gone = decide_on(DRAINED, NAMED, there=edge())

    assert not gone.changes
    assert gone.actions == (DeleteNode(node=NAME),)


def test_a_victim_is_named_until_its_record_is_gone_too() -> None:
    forgotten = decide(observation(snapshot(), edge()), NAMED, ObservationHistory())

    assert forgotten.state.target("compute-xs") == target("compute-xs", 0)
    assert forgotten.changes[0].reason == f"{NAME} gone"


def test_a_victim_stays_a_victim_when_jobs_arrive() -> None:
    before = state(target("compute-xs", 0, NAME), generation=1)
    shot = snapshot((group("1"),), nodes=(DRAINED,))
    decision = decide(observation(shot, edge(worker(NAME)), max_workers=9), before, ObservationHistory())
    assert decision.state.target("compute-xs") == target("compute-xs", 1, NAME)
    assert decision.actions == ()


def decide_with_absent_worker(
    record: NodeState, *runs: RunningJob, for_seconds: float, there: Edge | None = None
) -> Decision:
    shot = snapshot((), runs, (record,))
    view = observation(shot, there or edge(), ghost_seconds=300)
    return decide(view, state(), ObservationHistory(absent={record.name: at(NOW - for_seconds)}))


def test_an_orphaned_record_is_deleted_after_a_while() -> None:
    assert decide_with_absent_worker(node(NAME), for_seconds=299).actions == ()
    assert decide_with_absent_worker(node(NAME), for_seconds=301).actions == (DeleteNode(node=NAME),)
    assert decide_with_absent_worker(node(NAME, "DOWN"), for_seconds=301).actions == (DeleteNode(node=NAME),)
    assert decide_with_absent_worker(node(NAME), for_seconds=301, there=edge(worker(NAME, "failed"))).actions == (
        DeleteNode(node=NAME),
    )


def test_records_of_foreign_busy_or_present_workers_are_kept() -> None:
    somebody_s = node(NAME).model_copy(update={"features": ("bare-metal",)})
    assert decide_with_absent_worker(somebody_s, for_seconds=900).actions == ()
    assert decide_with_absent_worker(node(NAME), running("1", NAME), for_seconds=900).actions == ()
    assert decide_with_absent_worker(node(NAME, used=1), for_seconds=900).actions == ()
    assert decide_with_absent_worker(node(NAME), for_seconds=900, there=edge(heard=NOW - 60)).actions == ()
    assert decide_with_absent_worker(node(NAME), for_seconds=900, there=edge(worker(NAME))).actions != (
        DeleteNode(node=NAME),
    )


def test_absence_counts_from_the_first_list_without_the_worker() -> None:
    view: Observation = observation(snapshot((), (), (node(NAME),)), edge())
    observation_history = decide(view, state(), ObservationHistory()).observation_history
    assert observation_history.absent == {NAME: at(NOW)}
    back = observation(snapshot((), (), (node(NAME),)), edge(worker(NAME)))
    assert decide(back, state(), observation_history).observation_history.absent == {}
