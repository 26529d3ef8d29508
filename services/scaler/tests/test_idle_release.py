"""Idle workers are drained past their keep-alive time, above the warm pool and within the drain budget."""

from collections.abc import Sequence
from typing import Any

import pytest
from clusterra_contracts.queue import NodeState, PendingJobs, RunningJob
from clusterra_contracts.rpc.slurm_nodes import Drain, Undrain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps
from clusterra_scaler.planner.estimates.keep_alive import MIN_GAPS, Gap, KeepAlive
from clusterra_scaler.planner.observed.breakers import LONGEST_PAUSE_SECONDS, ShapeBreaker
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, group, node, observation, running, snapshot, state, target, worker

NAMES = tuple(f"compute-xs-{number}" for number in range(1, 6))
NEVER = (Gap(150.0, ended=False),) * MIN_GAPS
AFTER_40 = (Gap(40.0, ended=True),) * MIN_GAPS
PACKING: dict[str, Any] = {"name": "packing"}


def decide_on(
    nodes: Sequence[NodeState] | None,
    *runs: RunningJob,
    pending: tuple[PendingJobs, ...] = (),
    before: FleetState | None = None,
    observation_history: ObservationHistory | None = None,
    now: float = NOW,
    paused: bool = False,
    **policy: Any,
) -> Decision:
    names = [record.name for record in nodes or ()]
    shot = snapshot(pending, runs, None if nodes is None else tuple(nodes), taken=now)
    view = observation(shot, edge(*map(worker, names), heard=now), now=now, **policy)
    if paused:
        view = type(view)(view.binding.model_copy(update={"state": "paused"}), shot, view.edge, view.now)
    before = before or state(target("compute-xs", len(names)), generation=1)
    return decide(view, before, observation_history or ObservationHistory())


def history_of_gaps(*gaps: Gap) -> ObservationHistory:
    return ObservationHistory(idle_gaps=IdleGaps(KeepAlive(gaps={"compute-xs": gaps})))


def drained(decision: Decision) -> list[str]:
    return [action.node for action in decision.actions if isinstance(action, Drain)]


def idle_nodes(*idle_for: float) -> list[NodeState]:
    return [node(name, idle_for=each) for name, each in zip(NAMES, idle_for, strict=False)]


@pytest.mark.parametrize(
    ("gaps", "kept", "gone"), [((), 149, 151), (AFTER_40, 43, 45), (NEVER, -1, 0)], ids=["unknown", "soon", "never"]
)
def test_an_idle_worker_is_kept_for_the_learned_time(gaps: tuple[Gap, ...], kept: float, gone: float) -> None:
    if kept >= 0:
        assert drained(decide_on(idle_nodes(kept), observation_history=history_of_gaps(*gaps), **PACKING)) == []
    assert drained(decide_on(idle_nodes(gone), observation_history=history_of_gaps(*gaps), **PACKING)) == [NAMES[0]]


def test_idle_seconds_bounds_the_learned_time() -> None:
    assert drained(
        decide_on(idle_nodes(21), observation_history=history_of_gaps(*AFTER_40), idle_seconds=20, **PACKING)
    ) == [NAMES[0]]
    assert drained(decide_on(idle_nodes(0), idle_seconds=0, **PACKING)) == [NAMES[0]]


def test_the_family_policy_uses_idle_seconds_alone() -> None:
    assert drained(decide_on(idle_nodes(149), observation_history=history_of_gaps(*NEVER), name="family")) == []
    assert drained(decide_on(idle_nodes(151), observation_history=history_of_gaps(*AFTER_40), name="family")) == [
        NAMES[0]
    ]


def test_the_keep_alive_time_of_an_idle_worker_stays() -> None:
    first = decide_on(idle_nodes(1), **PACKING)
    chosen = first.observation_history.idle_gaps.idle[NAMES[0]]
    assert chosen.keep_seconds == 150
    changed_mind = ObservationHistory(idle_gaps=IdleGaps(KeepAlive(gaps={"compute-xs": NEVER}), {NAMES[0]: chosen}))
    assert drained(decide_on(idle_nodes(100), observation_history=changed_mind, **PACKING)) == []


def history_of_idle(seconds: float) -> ObservationHistory:
    """The history of a cluster that has seen a worker idle for this long."""
    return decide_on(idle_nodes(seconds), **PACKING).observation_history


@pytest.mark.parametrize(
    ("records", "runs", "pending"),
    [
        ([node(NAMES[0], used=1)], (running("1", NAMES[0]),), ()),
        (idle_nodes(50), (), (group("1"),)),
    ],
    ids=["runs a job", "has a job planned"],
)
def test_the_use_of_an_idle_worker_ends_its_gap(
    records: list[NodeState], runs: tuple[RunningJob, ...], pending: tuple[PendingJobs, ...]
) -> None:
    decision = decide_on(records, *runs, pending=pending, observation_history=history_of_idle(50), **PACKING)

    learned = decision.observation_history.idle_gaps.keep_alive.gaps
    assert learned == {"compute-xs": (Gap(50.0, ended=True),)}


def test_the_gap_of_a_worker_that_is_gone_has_not_ended() -> None:
    before = state(target("compute-xs", 1))

    gone = decide_on([], before=before, observation_history=history_of_idle(50), **PACKING)

    learned = gone.observation_history.idle_gaps.keep_alive.gaps
    assert learned == {"compute-xs": (Gap(50.0, ended=False),)}


def test_a_snapshot_without_nodes_teaches_no_gap() -> None:
    history = history_of_idle(50)

    nobody_knows = decide_on(None, observation_history=history, **PACKING)

    assert nobody_knows.observation_history.idle_gaps == history.idle_gaps


def test_a_purchase_after_a_release_is_learned_from() -> None:
    first = decide_on(idle_nodes(0), observation_history=history_of_gaps(*NEVER), **PACKING)
    drains = first.state.model_copy(update={"drains": {NAMES[0]: at(NOW)}})
    record = node(NAMES[0], "IDLE", "DRAIN", reason=OUR_DRAIN, idle_for=0)
    second = decide_on([record], before=drains, observation_history=first.observation_history, now=NOW + 1, **PACKING)

    assert second.state.victims == {NAMES[0]}

    third = decide_on(
        (),
        pending=(group("1"),),
        before=second.state,
        observation_history=second.observation_history,
        now=NOW + 30,
        **PACKING,
    )

    assert third.plan is not None
    assert third.plan.new == {"compute-xs": 1}
    assert third.observation_history.idle_gaps.keep_alive.gaps["compute-xs"][-1] == Gap(30.0, ended=True)


def test_a_cancelled_job_ends_the_idle_gap_of_its_planned_worker() -> None:
    first = decide_on(idle_nodes(100), pending=(group("1"),), **PACKING)
    second = decide_on(idle_nodes(100), observation_history=first.observation_history, now=NOW + 1, **PACKING)
    assert second.observation_history.idle_gaps.idle[NAMES[0]].since == at(NOW).timestamp()


def test_learned_keep_alive_times_survive_a_takeover() -> None:
    first = decide_on(
        idle_nodes(50, 1),
        observation_history=history_of_gaps(*AFTER_40),
        before=state(target("compute-xs", 3)),
        **PACKING,
    )
    assert first.changes
    assert first.state.keep_seconds == {"compute-xs": pytest.approx(44)}
    after = ObservationHistory.after_takeover(first.state.under_new_lease(2, at(NOW)))
    assert drained(decide_on(idle_nodes(43), observation_history=after, **PACKING)) == []
    assert drained(decide_on(idle_nodes(45), observation_history=after, **PACKING)) == [NAMES[0]]


IDLE_FIVE = idle_nodes(200, 400, 300, 500, 600)


def test_the_drain_budget_goes_to_the_longest_idle_first() -> None:
    first = decide_on(IDLE_FIVE, moves_per_minute=2)

    assert drained(first) == [NAMES[4], NAMES[3]]
    assert first.state.must_be_stored_after(FleetState.initial(at(0))), "the drains are recorded before Slurm is asked"


def test_the_same_drains_are_requested_until_they_are_observed() -> None:
    before = decide_on(IDLE_FIVE, moves_per_minute=2).state

    again = decide_on(IDLE_FIVE, before=before, now=NOW + 59, moves_per_minute=2)

    assert drained(again) == [NAMES[4], NAMES[3]]
    assert again.state.moves == before.moves


def test_a_takeover_does_not_renew_the_drain_budget() -> None:
    taken_over = decide_on(IDLE_FIVE, moves_per_minute=2).state.under_new_lease(2, at(NOW + 1))

    decision = decide_on(IDLE_FIVE[:3], before=taken_over, now=NOW + 59, moves_per_minute=2)

    assert drained(decision) == []


def test_the_drain_budget_is_renewed_after_a_minute() -> None:
    taken_over = decide_on(IDLE_FIVE, moves_per_minute=2).state.under_new_lease(2, at(NOW + 1))

    later = decide_on(IDLE_FIVE[:3], before=taken_over, now=NOW + 60, moves_per_minute=2)

    assert drained(later) == [NAMES[1], NAMES[2]]
    assert later.state.moves == {name: at(NOW + 60) for name in NAMES[1:3]}


@pytest.mark.parametrize("policy", ["packing", "family"])
def test_the_warm_pool_is_not_drained(policy: str) -> None:
    records = idle_nodes(200, 400, 300)
    assert drained(decide_on(records, warm={"compute-xs": 2}, name=policy)) == [NAMES[1]]
    assert drained(decide_on(records, warm={"compute-xs": 3}, name=policy)) == []
    assert len(drained(decide_on(records, warm={"compute-xs": 2}, name=policy, paused=True))) == 3
    busy = [node(NAMES[0], used=1), *records[1:]]
    assert drained(decide_on(busy, running("1", NAMES[0]), warm={"compute-xs": 2}, name=policy)) == [NAMES[1]]


def test_a_node_that_does_not_answer_is_not_part_of_the_warm_pool() -> None:
    down = node(NAMES[0], "DOWN", idle_for=900)
    decision = decide_on([down, *idle_nodes(0, 200)[1:]], warm={"compute-xs": 1})
    assert drained(decision) == [NAMES[0]]


@pytest.mark.parametrize("policy", ["packing", "family"])
def test_missing_workers_of_the_warm_pool_are_bought(policy: str) -> None:
    decision = decide_on(idle_nodes(1), warm={"compute-xs": 3}, name=policy)

    assert decision.state.target("compute-xs") == target("compute-xs", 3)
    assert decision.changes[0].reason == "2 more to stand warm"

    still = decide_on(idle_nodes(1), warm={"compute-xs": 3}, name=policy, before=decision.state)

    assert not still.changes

    lowered = decide_on(idle_nodes(1), warm={"compute-xs": 1}, name=policy, before=decision.state)

    assert lowered.state.target("compute-xs") == target("compute-xs", 1)


def test_workers_for_jobs_count_for_the_warm_pool() -> None:
    decision = decide_on((), pending=(group("1", cpus=2),), warm={"compute-xs": 2}, name="family")
    assert decision.state.target("compute-xs") == target("compute-xs", 2)
    assert decision.changes[0].reason == "1 more for pending job 1; 1 more to stand warm"


def test_the_warm_pool_stays_within_the_quota_and_a_paused_cluster_has_none() -> None:
    assert decide_on((), warm={"compute-xs": 3}, max_workers=2).state.target("compute-xs") == target("compute-xs", 2)
    assert decide_on((), warm={"compute-xs": 3}, most={"compute-xs": 1}).state.target("compute-xs") == target(
        "compute-xs", 1
    )
    assert not decide_on((), warm={"compute-xs": 3}, paused=True).changes
    assert not decide_on((), warm={"no-such-shape": 3}).changes


def test_a_drain_is_cancelled_before_the_warm_pool_is_bought() -> None:
    record = node(NAMES[0], "IDLE", "DRAIN", reason=OUR_DRAIN)
    before = state(target("compute-xs", 1), generation=1, drains={NAMES[0]: at(NOW)})
    decision = decide_on([record], before=before, warm={"compute-xs": 1})
    assert decision.actions == (Undrain(node=NAMES[0]),)
    assert not decision.changes


def test_the_warm_pool_probes_a_shape_with_an_open_breaker_with_one_worker() -> None:
    def after(failed: float) -> Decision:
        breaker = ShapeBreaker(
            shape="compute-xs",
            why="compute-xs: no machine",
            message="",
            opened_at=at(failed),
            failed_at=at(failed),
            failures=1,
        )
        return decide_on((), warm={"compute-xs": 3}, before=state(generation=1, breakers=(breaker,)))

    assert not after(NOW - 1).changes

    tried = after(NOW - LONGEST_PAUSE_SECONDS)

    assert tried.state.target("compute-xs") == target("compute-xs", 1)
    assert not decide_on((), warm={"compute-xs": 3}, before=tried.state).changes
