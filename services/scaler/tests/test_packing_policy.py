"""The policy `packing` on a live cluster: what is booked, what is bought, and what is waited for."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_contracts.rpc.slurm_nodes import SetExtra, Undrain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement import packing_policy as packing_policy
from clusterra_scaler.planner.placement.bookings import STARTS_WITHIN
from clusterra_scaler.planner.placement.fleet_assignment import BATCHING
from clusterra_scaler.planner.placement.plan import AT_QUOTA, Place, Plan
from fleet_examples import (
    CATALOGUE,
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


def first_decision(view: Observation, before: FleetState | None = None) -> Decision:
    return decide(view, before or FleetState.initial(START), ObservationHistory())


def observe(pending: tuple[PendingJobs, ...], there: Edge | None = None, **more: Any) -> Observation:
    return observation(snapshot(pending, more.pop("runs", ()), more.pop("nodes", ())), there, name="packing", **more)


def plan_of(decision: Decision) -> Plan:
    assert decision.plan is not None
    return decision.plan


def bookings_of(decision: Decision) -> list[tuple[str, str | None, dict[str, int]]]:
    return [(each.shape, each.worker, each.jobs) for each in decision.state.bookings]


def replicas_by_shape(decision: Decision) -> dict[str, int]:
    return {target.shape: target.replicas for target in decision.state.targets if target.replicas}


ONE = (group("1", cpus=2),)


def test_a_worker_is_bought_and_booked() -> None:
    decision = first_decision(observe(ONE))
    assert replicas_by_shape(decision) == {"compute-xs": 1}
    assert bookings_of(decision) == [("compute-xs", None, {"1": 1})]
    assert plan_of(decision).places == {"1": (Place("new", "", "compute-xs"),)}
    assert decision.changes[0].reason == "1 more for pending job 1"


def test_a_booking_takes_the_name_of_its_worker_from_the_heartbeat() -> None:
    ordered = first_decision(observe(ONE)).state
    booting = first_decision(observe(ONE, edge(worker("compute-xs-1", "booting", started=NOW), applied=1)), ordered)
    assert not booting.changes
    assert bookings_of(booting) == [("compute-xs", "compute-xs-1", {"1": 1})]
    assert plan_of(booting).needed == {"compute-xs-1"}
    assert plan_of(booting).places == {"1": (Place("booting", "compute-xs-1", "compute-xs"),)}


def test_a_booking_ends_when_its_job_does_not_start_on_its_registered_worker() -> None:
    ordered = first_decision(observe(ONE)).state
    there = node("compute-xs-1", used=2).model_copy(update={"registered_at": at(NOW)})
    runs = (running("9", "compute-xs-1", cpus=2, since=NOW),)
    view = observe(ONE, edge(worker("compute-xs-1", started=NOW), applied=1), runs=runs, nodes=(there,))
    # Another job uses the capacity, and the booking has not expired yet.
    named = ordered.model_copy(update={"bookings": (replace(ordered.bookings[0], worker="compute-xs-1"),)})

    assert not first_decision(view, named).changes

    late = first_decision(replace(view, now=view.now + STARTS_WITHIN * 1.1, snapshot_age_seconds=1.0), named)

    assert replicas_by_shape(late) == {"compute-xs": 2}


def test_a_worker_lost_before_its_use_is_not_bought_twice() -> None:
    ordered = first_decision(observe(ONE)).state
    booting = first_decision(
        observe(ONE, edge(worker("compute-xs-1", "booting", started=NOW), applied=1)), ordered
    ).state
    gone = first_decision(observe(ONE, edge(applied=1)), booting)
    assert not gone.changes
    assert bookings_of(gone) == [("compute-xs", None, {"1": 1})]
    assert plan_of(gone).ordered == {"compute-xs": 1}


def test_the_order_for_a_cancelled_job_is_cancelled() -> None:
    ordered = first_decision(observe(ONE)).state
    cancelled = first_decision(observe(()), ordered)
    assert replicas_by_shape(cancelled) == {}
    assert bookings_of(cancelled) == []


def test_no_worker_is_bought_for_a_job_that_an_existing_one_can_hold() -> None:
    view = observe(ONE, edge(worker("general-small-1")), nodes=(node("general-small-1"),))
    decision = first_decision(view, state(target("general-small", 1)))
    assert not decision.changes
    assert plan_of(decision).needed == {"general-small-1"}
    assert bookings_of(decision) == []


def test_a_job_of_several_nodes_books_existing_workers_until_the_others_register() -> None:
    pending = (group("1", cpus=6, nodes=3), group("2", cpus=2))
    nodes = (node("compute-xs-1"),)
    decision = first_decision(observe(pending, edge(worker("compute-xs-1")), nodes=nodes))

    assert Counter(shape for shape, _, jobs in bookings_of(decision) if "1" in jobs).total() == 3
    assert ("compute-xs", "compute-xs-1", {"1": 1}) in bookings_of(decision)
    assert plan_of(decision).needed == {"compute-xs-1"}

    again = first_decision(observe(pending, edge(worker("compute-xs-1"), applied=1), nodes=nodes), decision.state)

    assert not again.changes
    assert sorted(map(str, bookings_of(again))) == sorted(map(str, bookings_of(decision)))


def test_jobs_that_the_packing_does_not_model_are_placed_by_first_fit() -> None:
    pending = (
        group("1", het_job_id="1", cpus=2, features="compute"),
        group("2", het_job_id="1", het_offset=1, cpus=2, features="general"),
        group("3", cpus=2),
    )
    decision = first_decision(observe(pending))
    bought = replicas_by_shape(decision)

    assert sum(bought.values()) == 3
    assert bought["general-xs"] >= 1
    assert [jobs for _, _, jobs in bookings_of(decision)] == [{"3": 1}]
    assert not first_decision(observe(pending), decision.state).changes


def test_a_constraint_is_honoured() -> None:
    decision = first_decision(observe((group("1", features="memory"),)))
    assert set(replicas_by_shape(decision)) == {"memory-xs"}


@pytest.mark.parametrize(
    ("limits", "workers"),
    [({"max_workers": 2}, 2), ({"usd_per_hour": 0.16}, 2), ({"most": {"compute-xs": 0, "general-xs": 1}}, 3)],
)
def test_the_quota_is_kept_and_reported(limits: dict[str, Any], workers: int) -> None:
    pending = tuple(group(str(number), cpus=2, exclusive=True) for number in range(1, 4))
    decision = first_decision(observe(pending, **limits))
    bought = replicas_by_shape(decision)

    assert sum(bought.values()) == workers
    assert all(bought.get(shape, 0) <= most for shape, most in limits.get("most", {}).items())

    cost = sum(CATALOGUE[shape].usd_per_hour * count for shape, count in bought.items())

    assert cost <= limits.get("usd_per_hour", cost) + 1e-9
    assert [each.reason for each in plan_of(decision).unmet] == [AT_QUOTA] * (3 - workers)


def test_a_job_of_several_nodes_is_bought_whole_or_not_at_all() -> None:
    decision = first_decision(observe((group("1", cpus=8, nodes=4),), max_workers=3))
    assert replicas_by_shape(decision) == {}
    assert [each.reason for each in plan_of(decision).unmet] == [
        "it asks for more nodes (4) than the cluster may have (3)"
    ]


def test_jobs_are_batched_before_workers_are_bought() -> None:
    fresh = group("1", cpus=2, first_submitted_at=at(NOW - 5))
    decision = first_decision(observe((fresh,), gather_seconds=10))
    assert not decision.changes
    assert [each.reason for each in plan_of(decision).unmet] == [BATCHING]
    assert first_decision(observe((fresh,), gather_seconds=5)).changes


def test_capacity_that_is_free_before_a_worker_could_register_is_waited_for() -> None:
    there = edge(worker("compute-xs-1"))
    nodes = (node("compute-xs-1", used=2),)
    busy = running("9", "compute-xs-1", cpus=2, since=NOW - 3600)
    ends_soon = busy.model_copy(update={"ends_by": at(NOW + 20)})
    before = state(target("compute-xs", 1))
    decision = first_decision(observe(ONE, there, runs=(ends_soon,), nodes=nodes), before)

    assert not decision.changes
    assert plan_of(decision).places == {"1": (Place("node", "compute-xs-1", "compute-xs"),)}

    for not_soon in (busy, busy.model_copy(update={"ends_by": at(NOW + 3600)})):
        assert first_decision(observe(ONE, there, runs=(not_soon,), nodes=nodes), before).changes
    # It has outlived its limit: nobody knows when it ends.
    overdue = busy.model_copy(update={"ends_by": at(NOW - 1)})

    assert first_decision(observe(ONE, there, runs=(overdue,), nodes=nodes), before).changes


def test_a_job_that_no_shape_can_hold_is_reported() -> None:
    decision = first_decision(observe((group("1", cpus=64),)))
    assert not decision.changes
    assert "64 CPUs" in plan_of(decision).unmet[0].reason


any_jobs = st.lists(
    st.builds(
        lambda cpus, memory, nodes, count, limit: {
            "cpus": cpus * nodes,
            "memory_per_node_mib": memory,
            "nodes": nodes,
            "count": count,
            "time_limit_seconds": limit,
        },
        st.integers(1, 32),
        st.integers(100, 128 * 1024),
        st.sampled_from([1, 1, 1, 2, 3]),
        st.integers(1, 5),
        st.sampled_from([None, 60.0, 3600.0, 86400.0]),
    ),
    min_size=1,
    max_size=8,
)


@given(any_jobs)
def test_every_job_has_capacity_and_nothing_else_is_bought(jobs: list[dict[str, Any]]) -> None:
    pending = tuple(group(str(number), **job) for number, job in enumerate(jobs, start=1))
    view = observe(pending, max_workers=1000)
    decision = first_decision(view)
    bookings = decision.state.bookings
    for number, job in enumerate(jobs, start=1):
        shares = sum(each.jobs.get(str(number), 0) for each in bookings)
        assert shares == job["nodes"] * job["count"]

    assert all(each.jobs for each in bookings)
    assert replicas_by_shape(decision) == dict(Counter(each.shape for each in bookings))

    for each in bookings:
        spec = CATALOGUE[each.shape].worker
        asked = [(pending[int(job_id) - 1], shares) for job_id, shares in each.jobs.items()]
        assert sum(job.cpus // job.nodes * shares for job, shares in asked) <= spec.cpus
        assert sum((job.memory_per_node_mib or 0) * shares for job, shares in asked) <= spec.memory_mib

    assert not decide(view, decision.state, decision.observation_history).changes


CLASS = "open=1|u20001.t9=1"


def extras_of(decision: Decision) -> dict[str, str]:
    return {action.node: action.extra for action in decision.actions if isinstance(action, SetExtra)}


BUSY_BIG = node("memory-xlarge-1", used=30).model_copy(update={"extra": OPEN})
"""A big worker that is busy for minutes."""
ENDS_SOON = running("9", "memory-xlarge-1", cpus=30, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 300)})
DAYS = group("1", cpus=2, time_limit_seconds=7 * 86400.0, extra=CLASS)
"""A small job that runs for days."""


def decision_beside_big_worker(job: PendingJobs, big: NodeState = BUSY_BIG, **more: Any) -> Decision:
    view = observe((job,), edge(worker(big.name)), runs=(ENDS_SOON,), nodes=(big,), **more)
    return first_decision(view, state(target("memory-xlarge", 1)))


def test_a_worker_is_closed_to_a_job_that_would_keep_it_alone_for_long() -> None:
    decision = decision_beside_big_worker(DAYS)

    assert replicas_by_shape(decision) == {"memory-xlarge": 1, "compute-xs": 1}
    assert extras_of(decision) == {"memory-xlarge-1": '{"open":0}'}


def test_a_short_job_runs_on_a_worker_that_is_kept_anyway() -> None:
    minutes = group("1", cpus=2, time_limit_seconds=60.0, extra=CLASS)

    decision = decision_beside_big_worker(minutes)

    assert not decision.changes


def test_no_worker_is_closed_where_none_can_be_bought() -> None:
    capped = decision_beside_big_worker(DAYS, max_workers=1)

    assert not capped.changes
    assert extras_of(capped) == {}


def test_a_closed_worker_is_opened_where_none_can_be_bought() -> None:
    closed = BUSY_BIG.model_copy(update={"extra": '{"open":0}'})

    capped = decision_beside_big_worker(DAYS, closed, max_workers=1)

    assert extras_of(capped) == {"memory-xlarge-1": '{"open":1}'}


def test_no_worker_is_bought_for_a_job_without_a_class_that_slurm_may_start() -> None:
    without_class = DAYS.model_copy(update={"extra": ""})

    decision = decision_beside_big_worker(without_class)

    assert not decision.changes


@pytest.mark.parametrize(("its_class", "extra"), [("u20001.t3", '{"open":0,"u20001.t3":1}'), ("u20001.t9", "")])
def test_a_closed_worker_admits_jobs_that_first_fit_placed_there(its_class: str, extra: str) -> None:
    """A job that excludes a node has a class, and that of others may be the same."""
    nodes = (node("memory-xlarge-1", used=30).model_copy(update={"extra": OPEN}),)
    runs = (running("9", "memory-xlarge-1", cpus=30, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 300)}),)
    days = group("1", cpus=1, time_limit_seconds=7 * 86400.0, extra=CLASS)
    special = group("2", excluded_nodes=("w9",), extra=f"open=1|{its_class}=1")
    view = observe((days, special), edge(worker("memory-xlarge-1")), runs=runs, nodes=nodes)
    decision = first_decision(view, state(target("memory-xlarge", 1)))

    assert plan_of(decision).places["2"] == (Place("node", "memory-xlarge-1", "memory-xlarge"),)
    assert extras_of(decision) == ({"memory-xlarge-1": extra} if extra else {})


HALF_FREE = node("memory-xlarge-1", used=28).model_copy(update={"extra": OPEN})
MINUTES = group("2", cpus=2, time_limit_seconds=60.0, extra="open=1|u20001.t3=1")


@pytest.fixture
def one_class_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the class of the first job is evaluated."""
    monkeypatch.setattr(packing_policy, "MOST_CLASSES", 1)


def decision_on_two_classes(
    *jobs: PendingJobs, big: NodeState = HALF_FREE, bookings: tuple[Booking, ...] = (), **more: Any
) -> Decision:
    runs = (ENDS_SOON.model_copy(update={"cpus": 28}),)
    view = observe(jobs, edge(worker(big.name)), runs=runs, nodes=(big,), **more)
    return first_decision(view, state(target("memory-xlarge", 1), bookings=bookings))


@pytest.mark.usefixtures("one_class_evaluated")
def test_a_closed_worker_is_closed_to_classes_that_were_not_evaluated() -> None:
    decision = decision_on_two_classes(DAYS, MINUTES)

    assert extras_of(decision) == {"memory-xlarge-1": '{"open":0}'}
    assert all(place.kind == "new" for places in plan_of(decision).places.values() for place in places)


@pytest.mark.usefixtures("one_class_evaluated")
def test_a_worker_stays_open_if_the_class_that_was_evaluated_may_run() -> None:
    decision = decision_on_two_classes(MINUTES, DAYS)

    assert extras_of(decision) == {}
    assert not decision.changes


@pytest.mark.usefixtures("one_class_evaluated")
def test_a_closed_worker_takes_what_it_is_booked_for() -> None:
    booking = Booking(shape="memory-xlarge", worker="memory-xlarge-1", jobs={"2": 1}, bought_at=at(NOW - 5))
    fresh = HALF_FREE.model_copy(update={"registered_at": at(NOW - 5)})

    decision = decision_on_two_classes(DAYS, MINUTES, big=fresh, bookings=(booking,))

    assert extras_of(decision) == {"memory-xlarge-1": '{"open":0,"u20001.t3":1}'}


@pytest.mark.usefixtures("one_class_evaluated")
def test_a_class_that_was_not_evaluated_is_let_in_where_no_worker_can_be_bought() -> None:
    decision = decision_on_two_classes(DAYS, MINUTES, max_workers=1)

    assert not decision.changes
    assert extras_of(decision) == {}


def test_a_policy_without_closed_nodes_opens_those_of_another_policy() -> None:
    nodes = tuple(
        node(f"compute-xs-{number}", idle_for=1.0).model_copy(update={"extra": extra})
        for number, extra in enumerate(['{"open":0}', "", OPEN, "rack=7"])
    )
    there = edge(*(worker(each.name) for each in nodes))
    registrations = {
        extra: observation(snapshot((group("1", extra=extra),), nodes=nodes), there) for extra in (CLASS, "")
    }

    assert extras_of(first_decision(registrations[""])) == {"compute-xs-0": OPEN}
    assert extras_of(first_decision(registrations[CLASS])) == {"compute-xs-0": OPEN, "compute-xs-1": OPEN}


def test_a_drained_worker_is_opened_before_it_is_undrained() -> None:
    closed = node("compute-xs-1", "IDLE", "DRAIN", reason=OUR_DRAIN).model_copy(update={"extra": '{"open":0}'})
    there = edge(worker("compute-xs-1"))
    before = state(target("compute-xs", 1), drains={"compute-xs-1": at(NOW - 5)})
    decision = first_decision(observation(snapshot((group("1"),), nodes=(closed,)), there), before)

    assert decision.actions == (SetExtra(node="compute-xs-1", extra=OPEN),)
    assert (decision.state.drains, decision.state.undrains) == ({}, {})

    opened = closed.model_copy(update={"extra": OPEN})
    again = first_decision(observation(snapshot((group("1"),), nodes=(opened,)), there), decision.state)

    assert again.actions == (Undrain(node="compute-xs-1"),)
    assert again.state.undrains == {"compute-xs-1": at(NOW)}


def test_an_extra_that_is_not_ours_is_left_alone() -> None:
    nodes = (node("compute-xs-1").model_copy(update={"extra": "rack=7"}),)
    decision = first_decision(observe((group("1", extra=CLASS),), edge(worker("compute-xs-1")), nodes=nodes))
    assert extras_of(decision) == {}
