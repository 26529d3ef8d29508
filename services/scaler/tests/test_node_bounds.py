"""Jobs that ask for more nodes than there can ever be cost no time, and are told why they wait."""

import pytest
from clusterra_contracts.identity import now
from clusterra_scaler.decisions.lanes import MEDIUM_QUEUE, SMALL_QUEUE, jobs_and_nodes
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.placement.node_bounds import MAX_PLANNED, LargestFleet, plannable
from clusterra_scaler.planner.requests.demand import Demand, demand_of
from clusterra_scaler.planner.time_limit import time_limit
from fleet_examples import group, observation, snapshot, state
from hypothesis import given
from hypothesis import strategies as st

CPU_SECONDS = 5.0
"""Of a decision that should take a few milliseconds. The old one took all memory before."""


def decided(features: str, policy: str, **fields: object) -> Decision:
    jobs = group("1", features=features, **fields), group("2")
    with time_limit(CPU_SECONDS):
        return decide(
            observation(snapshot(jobs), max_workers=100, name=policy), state(), ObservationHistory(), RunHistory()
        )


@pytest.mark.parametrize("features", ["[general*2147483647]", "general*1000000", "[general*60&compute*60]"])
def test_a_constraint_for_more_nodes_than_there_can_be_holds_nobody_up(features: str, policy: str) -> None:
    decision = decided(features, policy)

    assert decision.plan is not None
    (unmet,) = decision.plan.unmet
    assert unmet.demand.job_ids == ("1",)
    assert "than the cluster may have (100)" in unmet.reason
    assert sum(decision.plan.new.values()) == 1


def test_a_large_array_of_large_jobs_is_planned_in_part(policy: str) -> None:
    decision = decided("", policy, count=100_000, nodes=100, cpus=100)

    assert decision.plan is not None
    assert sum(unmet.count for unmet in decision.plan.unmet if unmet.demand.job_ids == ("1",)) >= 99_000


def test_a_million_tasks_are_planned_as_far_as_they_could_run_together(policy: str) -> None:
    decision = decided("", policy, count=1_000_000)

    assert decision.plan is not None
    assert sum(decision.plan.new.values()) == 100
    assert sum(unmet.count for unmet in decision.plan.unmet if unmet.demand.job_ids == ("1",)) >= 980_000


def test_many_different_jobs_of_several_nodes_hold_nobody_up(policy: str) -> None:
    jobs = tuple(
        group(str(number + 1), nodes=2 + number % 50, cpus=2 + number % 50, memory_per_node_mib=100 + number)
        for number in range(500)
    )

    with time_limit(4 * CPU_SECONDS):
        decision = decide(
            observation(snapshot(jobs), max_workers=2000, name=policy), state(), ObservationHistory(), RunHistory()
        )

    assert decision.plan is not None


@pytest.mark.parametrize(
    ("features", "nodes", "least"),
    [("[general*2147483647]", 1, MEDIUM_QUEUE), ("", 1000, SMALL_QUEUE), ("general*600&compute*1", 1, SMALL_QUEUE)],
)
def test_a_job_of_many_nodes_is_not_decided_on_the_event_loop(features: str, nodes: int, least: int) -> None:
    assert jobs_and_nodes(snapshot((group("1", features=features, nodes=nodes),))) > least


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 100_000)), max_size=30),
    st.integers(0, 200),
)
def test_every_job_is_planned_or_told_why_not(asked: list[tuple[int, int]], most_nodes: int) -> None:
    demands = [_demand(str(number + 1), nodes, count) for number, (nodes, count) in enumerate(asked)]

    planned, unmet = plannable(demands, LargestFleet(most_nodes, 64))

    kept = {demand.job_ids: demand for demand in planned}
    for demand in demands:
        rest = sum(each.count for each in unmet if each.demand is demand)
        assert rest + (kept[demand.job_ids].count if demand.job_ids in kept else 0) == demand.count
    assert all(demand.nodes <= max(most_nodes, 1) for demand in planned)
    assert sum(demand.nodes * demand.count for demand in planned) <= MAX_PLANNED


def _demand(job_id: str, nodes: int, count: int) -> Demand:
    return demand_of([group(job_id, nodes=nodes, count=count, first_submitted_at=now())], lambda need: True)
