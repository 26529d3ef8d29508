"""Workers that boot for jobs which went: they cost no more than what is done of their boot is worth."""

from random import Random
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.idle_gaps import UNREGISTERED_SECONDS, IdleGaps
from clusterra_scaler.planner.estimates.keep_alive import KeepAliveCosts
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from edge_model import EdgeBehaviour
from fleet_examples import WITH_GPUS, binding, edge, group, observation, snapshot, state, target, worker
from hypothesis import given
from hypothesis import strategies as st
from queue_world import Faults, World
from slurm_model import Job

BOOT_SECONDS = 30
WORKERS = 4
NAMES = tuple(f"h100-small-{number}" for number in range(1, WORKERS + 1))
PACKING: dict[str, Any] = {"name": "packing"}


def simulated(*, cancelled: int, again: int | None = None) -> World:
    """Jobs with a GPU are submitted at second 1 and cancelled; `again`: as many are submitted then."""
    jobs = [Job(1, 2, 2048, 60, gpus=1, gpu_type="l4", cancelled=cancelled) for _ in range(WORKERS)]
    if again is not None:
        jobs += [Job(again, 2, 2048, 60, gpus=1, gpu_type="l4") for _ in range(WORKERS)]
    world = World(
        jobs,
        binding(WITH_GPUS, **PACKING),
        Random(1),
        Faults(),
        EdgeBehaviour(boot_seconds=(BOOT_SECONDS, BOOT_SECONDS)),
    )
    world.run(0, 3000)
    return world


def test_workers_of_a_job_that_was_cancelled_within_a_second_cost_seconds_and_not_a_boot_and_an_idle_time() -> None:
    world = simulated(cancelled=2)

    # Each boots for some 15 s of 30, and never idles. Booted to the end and kept for 150 s, they cost 0.163 USD.
    assert world.idle_usd < 0.02
    assert world.longest_idle_seconds == 0


def test_a_job_that_comes_again_at_once_gets_the_workers_that_boot() -> None:
    world = simulated(cancelled=2, again=5)

    assert world.removed == WORKERS


def decision_at(second: float, before: Decision | None, *, names: tuple[str, ...] = NAMES, **more: Any) -> Decision:
    """A decision about workers that have booted since second 0."""
    phase, pending, policy = more.pop("phase", "booting"), more.pop("pending", ()), {**PACKING, **more}
    shot = snapshot(pending, (), (), taken=second)
    reported = edge(*(worker(name, phase, started=0.0) for name in names), heard=second)
    fleet: FleetState = state(target("h100-small", len(names)), generation=1) if before is None else before.state
    history = ObservationHistory() if before is None else before.observation_history
    return decide(observation(shot, reported, now=second, catalogue=WITH_GPUS, **policy), fleet, history)


def after(seconds: int, **more: Any) -> Decision:
    decision: Decision | None = None
    for second in range(1, seconds + 1):
        decision = decision_at(second, decision, **more)
    assert decision is not None
    return decision


def named(decision: Decision) -> set[str]:
    return {name for each in decision.state.targets for name in each.unregistered}


def test_workers_that_nothing_wants_are_named_before_they_register() -> None:
    soon, later = after(int(UNREGISTERED_SECONDS) - 1), after(int(UNREGISTERED_SECONDS) + 2)

    assert named(soon) == set()
    assert named(later) == set(NAMES)
    assert "nothing has wanted it for" in later.changes[0].reason if later.changes else True


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({"warm": {"h100-small": 3}}, 3),
        ({"moves_per_minute": 1}, 3),
        ({"phase": "running"}, 4),
        ({"name": "family"}, 4),
        ({"pending": (group(*"1234", gres="node/gpu:h100=1", memory_per_node_mib=None),)}, 4),
    ],
    ids=["the warm pool", "the drain budget", "its slurmd serves", "the policy family", "they are wanted"],
)
def test_what_keeps_a_worker_that_has_not_registered(more: dict[str, Any], left: int) -> None:
    decision = after(20, **more)

    assert len(NAMES) - len(named(decision)) == left
    assert not [action for action in decision.actions if isinstance(action, Drain)]


@given(
    st.floats(0.01, 100), st.floats(0, 600), st.floats(0, 600), st.floats(UNREGISTERED_SECONDS, 600), st.floats(0, 600)
)
def test_an_unwanted_worker_costs_no_more_than_what_is_done_of_its_boot_is_worth_and_registering_changes_nothing(
    usd_per_hour: float, since: float, done: float, at_most: float, later: float
) -> None:
    gaps, costs = IdleGaps(), KeepAliveCosts.of(usd_per_hour, done)

    gaps.fell_idle_unregistered("w", "h100-small", since, costs, at_most)
    kept = gaps.idle["w"]
    gaps.registered("w", since + later)
    registered = gaps.idle["w"]

    worth = max(costs.miss_usd, UNREGISTERED_SECONDS * costs.usd_per_second)
    assert kept.keep_seconds * costs.usd_per_second <= worth * 1.000001
    assert kept.keep_seconds <= at_most
    ends = max(kept.since + kept.keep_seconds, since + later)
    assert registered.since + registered.keep_seconds == pytest.approx(ends)
