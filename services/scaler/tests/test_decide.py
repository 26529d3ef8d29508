"""What is bought: demand on supply, the quota, and the changes that a decision reports."""

import pytest
from clusterra_contracts.queue import PendingJobs, QueueSnapshot
from clusterra_scaler.planner import decide as decide_module
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import (
    NOW,
    OUR_DRAIN,
    START,
    at,
    edge,
    group,
    node,
    observation,
    running,
    snapshot,
    state,
    target,
    worker,
)
from hypothesis import given
from hypothesis import strategies as st


def replicas_by_shape(decision: Decision) -> dict[str, int]:
    return {target.shape: target.replicas for target in decision.state.targets}


def used_and_new(decision: Decision) -> tuple[set[str], dict[str, int]]:
    assert decision.plan is not None
    return set(decision.plan.needed), dict(decision.plan.new)


def first_decision(view: Observation, before: FleetState | None = None) -> Decision:
    return decide(view, before or FleetState.initial(START), ObservationHistory())


def test_jobs_in_an_empty_cluster_are_packed() -> None:
    decision = first_decision(observation(snapshot((group("1", "2", "3", "4", "5", cpus=1),))))
    assert replicas_by_shape(decision) == {"compute-xs": 3}
    (change,) = decision.changes
    assert (change.replicas_before, change.replicas_after, change.job_ids) == (0, 3, ("1", "2", "3", "4", "5"))
    assert change.reason == "3 more for pending jobs 1, 2, 3, 4, 5"
    assert decision.fact.generation == 1


def test_families_are_bought_side_by_side() -> None:
    pending = (
        group("1", memory_per_node_mib=2048),
        group("2", memory_per_node_mib=5 * 1024),
        group("3", memory_per_node_mib=9 * 1024),
    )
    assert replicas_by_shape(first_decision(observation(snapshot(pending)))) == {
        "compute-xs": 1,
        "general-xs": 1,
        "memory-xs": 1,
    }


def test_a_coming_worker_is_for_its_own_family_and_a_registered_one_for_all() -> None:
    pending = (group("1", memory_per_node_mib=5 * 1024),)
    before = state(target("memory-xs", 1), generation=1)
    assert replicas_by_shape(first_decision(observation(snapshot(pending)), before)) == {
        "memory-xs": 0,
        "general-xs": 1,
    }
    there = snapshot(pending, nodes=(node("memory-xs-1"),))
    assert not first_decision(observation(there, edge(worker("memory-xs-1"))), before).changes


def test_idle_booting_and_ordered_workers_are_not_bought_again() -> None:
    before = state(target("compute-xs", 3), generation=1)
    view = observation(
        snapshot((group("1", "2", "3", cpus=2),), nodes=(node("compute-xs-1"),)),
        edge(worker("compute-xs-1"), worker("compute-xs-2", "booting", started=NOW)),
    )
    decision = first_decision(view, before)

    assert not decision.changes
    assert decision.plan is not None
    assert decision.plan.needed == {"compute-xs-1", "compute-xs-2"}
    assert decision.plan.ordered == {"compute-xs": 1}


def test_a_job_with_different_nodes_is_placed_whole() -> None:
    pending = (group("1", cpus=3, nodes=3, features="[general*2&compute*1]", memory_per_node_mib=1024),)
    assert replicas_by_shape(first_decision(observation(snapshot(pending)))) == {"compute-xs": 1, "general-xs": 2}
    there = snapshot(pending, nodes=(node("general-xs-1"),))
    decision = first_decision(observation(there, edge(worker("general-xs-1"))))
    assert replicas_by_shape(decision) == {"compute-xs": 1, "general-xs": 2}
    assert used_and_new(decision) == ({"general-xs-1"}, {"compute-xs": 1, "general-xs": 1})


def test_no_part_of_a_job_is_bought_without_the_others() -> None:
    pending = (
        group("1", het_job_id="1", cpus=2),
        group("2", het_job_id="1", het_offset=1, features="spot"),
        group("3", cpus=3, nodes=3, features="general*2"),
    )
    decision = first_decision(observation(snapshot(pending), max_workers=2))

    assert not decision.changes
    assert decision.plan is not None
    assert {unmet.demand.job_ids: unmet.reason for unmet in decision.plan.unmet} == {
        ("1", "2"): "no shape has the features 'spot'",
        ("3",): "it asks for more nodes (3) than the cluster may have (2)",
    }


def test_components_go_to_different_nodes() -> None:
    pending = (group("1", het_job_id="1"), group("2", het_job_id="1", het_offset=1))
    assert replicas_by_shape(first_decision(observation(snapshot(pending)))) == {"compute-xs": 2}


def test_a_named_node_is_waited_for_and_never_bought() -> None:
    before = state(target("compute-xs", 2), generation=1)
    nodes = (node("compute-xs-1"), node("compute-xs-2"))
    workers = edge(worker("compute-xs-1"), worker("compute-xs-2"), applied=1)
    for named, needed in (("compute-xs-2", {"compute-xs-2"}), ("compute-xs-3", set[str]())):
        decision = first_decision(
            observation(snapshot((group("1", required_nodes=(named,)),), nodes=nodes), workers), before
        )
        assert used_and_new(decision) == (needed, {})
    pair = group("1", cpus=2, nodes=2, required_nodes=("compute-xs-1",))
    decision = first_decision(
        observation(snapshot((pair,), nodes=nodes[:1]), edge(worker("compute-xs-1")), max_workers=9)
    )

    assert used_and_new(decision) == ({"compute-xs-1"}, {"compute-xs": 1})


def test_an_excluded_node_takes_no_job() -> None:
    view = observation(
        snapshot((group("1", excluded_nodes=("compute-xs-1",)),), nodes=(node("compute-xs-1"),)),
        edge(worker("compute-xs-1")),
    )
    assert replicas_by_shape(first_decision(view)) == {"compute-xs": 2}


def test_nodes_of_one_user_take_no_other_users_jobs() -> None:
    mine = group("1", "2", exclusive_user=True, memory_per_node_mib=1024)

    assert replicas_by_shape(first_decision(observation(snapshot((mine,))))) == {"compute-xs": 1}

    others = (
        group("3", uid=20002, exclusive_user=True, memory_per_node_mib=1024),
        group("4", memory_per_node_mib=1024),
    )

    assert replicas_by_shape(first_decision(observation(snapshot((mine, *others))))) == {"compute-xs": 3}


def test_a_job_goes_to_as_few_nodes_as_a_shape_allows() -> None:
    tasks = group("1", cpus=40, tasks=40, max_nodes=40, memory_per_node_mib=1024)
    assert replicas_by_shape(first_decision(observation(snapshot((tasks,))))) == {"compute-xlarge": 2}


def test_a_worker_that_does_not_register_in_time_is_no_supply() -> None:
    before = state(target("compute-xs", 1), generation=1)
    there = edge(worker("compute-xs-1", "booting", started=NOW - 30))
    shot = snapshot((group("1"),))
    assert not first_decision(observation(shot, there, boot_timeout_seconds=40), before).changes
    assert replicas_by_shape(first_decision(observation(shot, there, boot_timeout_seconds=20), before)) == {
        "compute-xs": 2
    }


def test_a_job_that_started_between_two_reads_buys_nothing() -> None:
    """Its node is busy already, while the list of jobs is older and calls it pending."""
    shot = snapshot((group("1", cpus=2),), nodes=(node("compute-xs-1", used=2),))
    before = state(target("compute-xs", 1), generation=1)
    assert not first_decision(observation(shot, edge(worker("compute-xs-1"))), before).changes


def test_a_running_job_uses_a_node_that_is_still_reported_idle() -> None:
    shot = snapshot((group("2", cpus=2),), (running("1", "compute-xs-1", cpus=2),), (node("compute-xs-1"),))
    before = state(target("compute-xs", 1), generation=1)
    assert replicas_by_shape(first_decision(observation(shot, edge(worker("compute-xs-1"))), before)) == {
        "compute-xs": 2
    }


def test_unusable_nodes_are_no_supply() -> None:
    for dead in (
        node("compute-xs-1", "IDLE", "NOT_RESPONDING"),
        node("compute-xs-1", "DOWN"),
        node("compute-xs-1", "IDLE", "DRAIN", reason="disk is broken"),
        node("compute-xs-1", "IDLE", "MAINTENANCE"),
    ):
        before = state(target("compute-xs", 1), generation=1)
        view = observation(
            snapshot((group("1"),), nodes=(dead,)), edge(worker("compute-xs-1")), boot_timeout_seconds=60
        )
        assert replicas_by_shape(first_decision(view, before)) == {"compute-xs": 2}, dead.states


def test_a_drain_is_cancelled_before_a_worker_is_bought() -> None:
    before = state(target("compute-xs", 1), generation=1, drains={"compute-xs-1": at(NOW - 1)})
    drained = node("compute-xs-1", "IDLE", "DRAIN", reason=OUR_DRAIN)
    decision = first_decision(
        observation(snapshot((group("1"),), nodes=(drained,)), edge(worker("compute-xs-1"))), before
    )

    assert not decision.changes
    assert [action.model_dump() for action in decision.actions] == [{"node": "compute-xs-1"}]
    assert "compute-xs-1" not in decision.state.drains
    assert "compute-xs-1" in decision.state.undrains


def test_a_job_of_several_nodes_is_bought_for_whole_or_not_at_all() -> None:
    pending = (group("1", cpus=6, nodes=3, memory_per_node_mib=1024),)
    assert replicas_by_shape(first_decision(observation(snapshot(pending), max_workers=3))) == {"compute-xs": 3}
    refused = first_decision(observation(snapshot(pending), max_workers=2))
    assert replicas_by_shape(refused) == {}
    assert refused.plan is not None
    assert [unmet.reason for unmet in refused.plan.unmet] == [
        "it asks for more nodes (3) than the cluster may have (2)"
    ]


EXCLUSIVE = group("2", exclusive=True)


@pytest.mark.parametrize(
    ("shot", "bought"),
    [
        (snapshot((EXCLUSIVE,), (running("1", "compute-xs-1"),), (node("compute-xs-1", used=1, idle_for=None),)), 1),
        (snapshot((EXCLUSIVE,), nodes=(node("compute-xs-1"),)), 0),
        (snapshot((group("2", "3", exclusive=True),), nodes=(node("compute-xs-1"),)), 1),
    ],
    ids=["the node is busy", "the node is empty", "two jobs for an empty node"],
)
def test_an_exclusive_job_needs_an_empty_node(shot: QueueSnapshot, bought: int) -> None:
    before = state(target("compute-xs", 1), generation=1)

    decision = first_decision(observation(shot, edge(worker("compute-xs-1"))), before)

    assert replicas_by_shape(decision) == {"compute-xs": 1 + bought}
    assert len(decision.changes) == bought


def test_the_quota_counts_workers_that_are_leaving() -> None:
    before = state(target("compute-xs", 0, "compute-xs-1"), generation=1)
    there = edge(worker("compute-xs-1", "terminating"), applied=1)
    shot = snapshot((group("1"),), nodes=(node("compute-xs-1", "IDLE", "DRAIN", reason=OUR_DRAIN),))
    assert not first_decision(observation(shot, there, max_workers=1), before).changes
    assert replicas_by_shape(first_decision(observation(shot, there, max_workers=2), before)) == {"compute-xs": 1}


def test_the_quota_counts_workers_that_the_edge_may_still_start() -> None:
    """Another shape is wanted now, but the edge has not said that it heard of the cancelled order."""
    before = state(target("compute-xs", 0), generation=2, ceilings={"compute-xs": 1})
    shot = snapshot((group("1", memory_per_node_mib=9 * 1024),))
    assert not first_decision(observation(shot, edge(applied=1), max_workers=1), before).changes
    assert replicas_by_shape(first_decision(observation(shot, edge(applied=2), max_workers=1), before)) == {
        "compute-xs": 0,
        "memory-xs": 1,
    }


def test_unneeded_orders_are_cancelled() -> None:
    before = state(target("compute-xs", 3), generation=1)
    decision = first_decision(observation(snapshot(), edge(worker("compute-xs-1", "booting", started=NOW))), before)
    assert replicas_by_shape(decision) == {"compute-xs": 1}
    assert decision.changes[0].reason == "2 ordered or lost and not needed any more"


def test_a_worker_that_died_by_itself_is_not_replaced_without_need() -> None:
    before = state(target("compute-xs", 1), generation=1)
    assert replicas_by_shape(
        first_decision(observation(snapshot(), edge(worker("compute-xs-1", "failed"))), before)
    ) == {"compute-xs": 0}


def test_a_paused_cluster_buys_nothing() -> None:
    view = observation(snapshot((group("1"),)))
    paused = Observation(view.binding.model_copy(update={"state": "paused"}), view.snapshot, view.edge, view.now)
    assert not first_decision(paused).changes


def test_without_any_heartbeat_jobs_are_bought_for() -> None:
    decision = first_decision(observation(snapshot((group("1"),)), Edge()))
    assert replicas_by_shape(decision) == {"compute-xs": 1}
    assert not first_decision(observation(snapshot((group("1"),)), Edge()), decision.state).changes


def test_an_unreadable_list_changes_nothing() -> None:
    pending = (group("1"),)
    before = state(target("compute-xs", 4), generation=1)
    for shot in (
        snapshot(None),
        snapshot(pending, None),
        snapshot(pending, (), None),
        snapshot(None, None, None),
    ):
        decision = first_decision(observation(shot), before)
        assert not decision.changes
        assert not decision.actions


def test_a_silent_edge_keeps_its_orders() -> None:
    before = state(target("compute-xs", 4), generation=1)
    silent = edge(worker("compute-xs-1"), heard=NOW - 60)
    assert not first_decision(observation(snapshot(), silent), before).changes
    assert replicas_by_shape(first_decision(observation(snapshot(), edge(worker("compute-xs-1"))), before)) == {
        "compute-xs": 1
    }


def test_workers_of_a_shape_that_left_the_catalogue_are_drained() -> None:
    gone = target("compute-xs", 1).model_copy(update={"shape": "ancient-xs"})
    there = worker("compute-xs-1").model_copy(update={"shape": "ancient-xs", "name": "ancient-xs-1"})
    old = node("compute-xs-1", "IDLE", "DRAIN", reason=OUR_DRAIN).model_copy(update={"name": "ancient-xs-1"})
    before = state(gone, generation=1, drains={"ancient-xs-1": at(NOW - 5)})
    decision = first_decision(observation(snapshot(nodes=(old,)), edge(there)), before)
    assert decision.state.victims == {"ancient-xs-1"}


groups = st.lists(
    st.builds(
        group,
        cpus=st.sampled_from([1, 2, 4, 7, 32, 64]),
        memory_per_node_mib=st.sampled_from([None, 100, 4096, 30_000, 120_000]),
        nodes=st.sampled_from([1, 1, 2, 3]),
        count=st.integers(1, 30),
        exclusive=st.booleans(),
        features=st.sampled_from(["", "", "compute", "general|memory", "a*2"]),
        reason=st.sampled_from(["Resources", "None", "Dependency", "BadConstraints"]),
    ),
    max_size=8,
)


@given(groups, st.integers(0, 40))
def test_one_decision_is_stable_and_keeps_the_quota(pending: list[PendingJobs], max_workers: int) -> None:
    distinct = tuple(job.model_copy(update={"job_ids": (str(n),)}) for n, job in enumerate(pending, start=1))
    view = observation(snapshot(distinct), max_workers=max_workers)
    decision = first_decision(view)

    assert sum(replicas_by_shape(decision).values()) <= max_workers

    again = decide(view, decision.state, decision.observation_history)

    assert not again.changes
    assert again.state.generation == decision.state.generation


def test_an_error_names_the_step_of_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_working: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(decide_module, "STEPS", (("place pending jobs", fail),))

    with pytest.raises(ZeroDivisionError) as raised:
        first_decision(observation(snapshot()))

    assert raised.value.__notes__ == ["in the step of the decision: place pending jobs"]
