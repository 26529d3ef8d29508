"""Scaling down: drain, see it idle afterwards, name the victim, delete its record. In doubt everything stays."""

from typing import Any

import pytest
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.slurm import DeleteNode, Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OURS, at, edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
DRAINED = node(NAME, "IDLE", "DRAIN", reason=OURS)


def one(drained_at: float | None = None) -> FleetState:
    """A fleet of one worker, drained at this moment."""
    return state(target("compute-xs", 1), generation=1, drains={} if drained_at is None else {NAME: at(drained_at)})


def look(
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


def test_an_idle_worker_is_drained_after_its_time() -> None:
    assert look(node(NAME, idle_for=149), one()).actions == ()
    assert look(node(NAME, idle_for=151), one()).actions == (Drain(node=NAME, reason="idle for 151 s"),)


def test_idleness_is_counted_from_what_was_seen_where_slurm_does_not_tell() -> None:
    record = node(NAME, idle_for=None)
    observation_history = look(record, one(), idle_seconds=10).observation_history
    early = decide(
        observation(snapshot((), (), (record,)), edge(worker(NAME)), now=NOW + 9, idle_seconds=10),
        one(),
        observation_history,
    )
    assert early.actions == ()
    view = observation(snapshot((), (), (record,)), edge(worker(NAME)), now=NOW + 11, idle_seconds=10)
    assert [type(action) for action in decide(view, one(), early.observation_history).actions] == [Drain]


def test_a_fresh_worker_is_not_idle_since_before_it_came() -> None:
    record = node(NAME, idle_for=900).model_copy(update={"registered_at": at(NOW - 5)})
    assert look(record, one()).actions == ()


def test_a_worker_that_a_pending_job_will_use_is_kept() -> None:
    shot = snapshot((group("1"),), nodes=(node(NAME),))
    assert decide(observation(shot, edge(worker(NAME))), one(), ObservationHistory()).actions == ()


def test_a_worker_whose_reservation_has_begun_is_kept() -> None:
    assert look(node(NAME, "IDLE", "RESERVED"), one()).actions == ()


def test_drained_and_seen_idle_afterwards_it_may_be_removed() -> None:
    decision = look(DRAINED, one(NOW - 1))
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
        (node(NAME, "MIXED", "DRAIN", used=1, reason=OURS), (), NOW),
        (node(NAME, "IDLE", "DRAIN", "COMPLETING", reason=OURS), (), NOW),
        (DRAINED.model_copy(update={"cpus_allocated": 1}), (), NOW),
        (DRAINED.model_copy(update={"memory_allocated_mib": 1}), (), NOW),
        (DRAINED.model_copy(update={"states": ("UNKNOWN", "DRAIN")}), (), NOW),
    ],
)
def test_what_does_not_prove_it_idle_keeps_it(record: NodeState, runs: tuple[RunningJob, ...], taken: float) -> None:
    decision = look(record, one(NOW - 1), *runs, taken=taken)
    assert not decision.state.victims
    assert decision.state.drains == {NAME: at(NOW - 1)}


def test_a_drain_that_somebody_else_took_over_is_not_ours_any_more() -> None:
    decision = look(node(NAME, "IDLE", "DRAIN", reason="disk is broken"), one(NOW - 1))
    assert not decision.state.victims
    assert decision.state.drains == {}
    assert decision.actions == ()


def test_a_drain_that_somebody_took_back_begins_anew() -> None:
    decision = look(node(NAME, idle_for=1), one(NOW - 1))
    assert not decision.state.victims
    assert decision.state.drains == {}


def test_our_drain_without_a_record_is_asked_for_again() -> None:
    """Its answer was lost, or another scaler asked: when it was accepted is not known."""
    decision = look(DRAINED, one())
    assert not decision.state.victims
    assert decision.actions == (Drain(node=NAME, reason="not needed"),)


def test_an_undrain_that_may_still_come_keeps_it() -> None:
    before = one(NOW - 1).model_copy(update={"undrains": {NAME: at(NOW - 30)}})
    assert not look(DRAINED, before).state.victims
    settled = one(NOW - 1).model_copy(update={"undrains": {NAME: at(NOW - 61)}})
    assert look(DRAINED, settled).state.victims == {NAME}


def test_after_a_takeover_no_answer_settles_what_the_other_had_asked() -> None:
    before = one().model_copy(update={"undrains": {NAME: at(NOW - 5)}})
    assert before.undrain_settled(NAME).undrains == {}
    after = ObservationHistory.after_takeover(before)
    assert after.lost == {NAME}
    assert look(node(NAME), before, observation_history=after).observation_history.lost == {NAME}
    long_ago = one().model_copy(update={"undrains": {NAME: at(NOW - 61)}})
    assert look(node(NAME), long_ago, observation_history=after).observation_history.lost == frozenset()


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


def test_a_node_that_went_down_is_retired_once_it_has_been_so_for_long() -> None:
    down = node(NAME, "DOWN", idle_for=299)
    assert look(down, one(), ghost_seconds=300).actions == ()
    assert [type(action) for action in look(down, one(), ghost_seconds=200).actions] == [Drain]
    assert look(node(NAME, "DOWN", "DRAIN", reason=OURS), one(NOW - 1)).state.victims == {NAME}


def test_a_victim_stays_one_until_it_is_gone_everywhere() -> None:
    before = state(target("compute-xs", 0, NAME), generation=1)
    leaving = look(DRAINED, before, there=edge(worker(NAME, "terminating")))
    assert not leaving.changes
    assert leaving.actions == ()
    gone = look(DRAINED, before, there=edge())
    assert not gone.changes
    assert gone.actions == (DeleteNode(node=NAME),)
    forgotten = decide(observation(snapshot(), edge()), before, ObservationHistory())
    assert forgotten.state.target("compute-xs") == target("compute-xs", 0)
    assert forgotten.changes[0].reason == f"{NAME} gone"


def test_a_victim_is_not_taken_back_when_jobs_come() -> None:
    before = state(target("compute-xs", 0, NAME), generation=1)
    shot = snapshot((group("1"),), nodes=(DRAINED,))
    decision = decide(observation(shot, edge(worker(NAME)), max_workers=9), before, ObservationHistory())
    assert decision.state.target("compute-xs") == target("compute-xs", 1, NAME)
    assert decision.actions == ()


def ghost(record: NodeState, *runs: RunningJob, for_seconds: float, there: Edge | None = None) -> Decision:
    shot = snapshot((), runs, (record,))
    view = observation(shot, there or edge(), ghost_seconds=300)
    return decide(view, state(), ObservationHistory(absent={record.name: at(NOW - for_seconds)}))


def test_the_record_of_a_lost_worker_is_deleted_after_a_while() -> None:
    assert ghost(node(NAME), for_seconds=299).actions == ()
    assert ghost(node(NAME), for_seconds=301).actions == (DeleteNode(node=NAME),)
    assert ghost(node(NAME, "DOWN"), for_seconds=301).actions == (DeleteNode(node=NAME),)
    assert ghost(node(NAME), for_seconds=301, there=edge(worker(NAME, "failed"))).actions == (DeleteNode(node=NAME),)


def test_records_that_are_kept() -> None:
    somebody_s = node(NAME).model_copy(update={"features": ("bare-metal",)})
    assert ghost(somebody_s, for_seconds=900).actions == ()
    assert ghost(node(NAME), running("1", NAME), for_seconds=900).actions == ()
    assert ghost(node(NAME, used=1), for_seconds=900).actions == ()
    assert ghost(node(NAME), for_seconds=900, there=edge(heard=NOW - 60)).actions == ()
    assert ghost(node(NAME), for_seconds=900, there=edge(worker(NAME))).actions != (DeleteNode(node=NAME),)


def test_absence_is_counted_from_the_first_list_without_it() -> None:
    view: Observation = observation(snapshot((), (), (node(NAME),)), edge())
    observation_history = decide(view, state(), ObservationHistory()).observation_history
    assert observation_history.absent == {NAME: at(NOW)}
    back = observation(snapshot((), (), (node(NAME),)), edge(worker(NAME)))
    assert decide(back, state(), observation_history).observation_history.absent == {}
