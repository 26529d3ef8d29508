"""The policy `packing` on a live cluster: what is booked, what is bought, and what is waited for."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import SetExtra, Undrain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement import packing_policy as packing_plan
from clusterra_scaler.planner.placement.bookings import STARTS_WITHIN
from clusterra_scaler.planner.placement.fleet_assignment import BATCHING, CAPPED
from clusterra_scaler.planner.placement.plan import Place, Plan
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


def first(view: Observation, before: FleetState | None = None) -> Decision:
    return decide(view, before or FleetState.initial(START), ObservationHistory())


def look(pending: tuple[PendingJobs, ...], there: Edge | None = None, **more: Any) -> Observation:
    return observation(snapshot(pending, more.pop("runs", ()), more.pop("nodes", ())), there, name="packing", **more)


def plan_of(decision: Decision) -> Plan:
    assert decision.plan is not None
    return decision.plan


def booked(decision: Decision) -> list[tuple[str, str | None, dict[str, int]]]:
    return [(each.shape, each.worker, each.jobs) for each in decision.state.bookings]


def wanted(decision: Decision) -> dict[str, int]:
    return {target.shape: target.replicas for target in decision.state.targets if target.replicas}


ONE = (group("1", cpus=2),)


def test_a_worker_is_bought_and_booked() -> None:
    decision = first(look(ONE))
    assert wanted(decision) == {"compute-xs": 1}
    assert booked(decision) == [("compute-xs", None, {"1": 1})]
    assert plan_of(decision).places == {"1": (Place("new", "", "compute-xs"),)}
    assert decision.changes[0].reason == "1 more for pending job 1"


def test_a_booking_gets_the_name_that_the_edge_tells() -> None:
    ordered = first(look(ONE)).state
    booting = first(look(ONE, edge(worker("compute-xs-1", "booting", started=NOW), applied=1)), ordered)
    assert not booting.changes
    assert booked(booting) == [("compute-xs", "compute-xs-1", {"1": 1})]
    assert plan_of(booting).needed == {"compute-xs-1"}
    assert plan_of(booting).places == {"1": (Place("booting", "compute-xs-1", "compute-xs"),)}


def test_a_booking_is_over_when_its_job_does_not_start_on_a_worker_that_is_there() -> None:
    ordered = first(look(ONE)).state
    there = node("compute-xs-1", used=2).model_copy(update={"registered_at": at(NOW)})
    runs = (running("9", "compute-xs-1", cpus=2, since=NOW),)
    view = look(ONE, edge(worker("compute-xs-1", started=NOW), applied=1), runs=runs, nodes=(there,))
    # Somebody else's job has taken the room: there is still time.
    named = ordered.model_copy(update={"bookings": (replace(ordered.bookings[0], worker="compute-xs-1"),)})
    assert not first(view, named).changes
    late = first(replace(view, now=view.now + STARTS_WITHIN * 1.1), named)
    assert wanted(late) == {"compute-xs": 2}


def test_a_worker_that_goes_before_it_is_of_use_is_not_bought_twice() -> None:
    ordered = first(look(ONE)).state
    booting = first(look(ONE, edge(worker("compute-xs-1", "booting", started=NOW), applied=1)), ordered).state
    gone = first(look(ONE, edge(applied=1)), booting)
    assert not gone.changes
    assert booked(gone) == [("compute-xs", None, {"1": 1})]
    assert plan_of(gone).ordered == {"compute-xs": 1}


def test_what_was_bought_for_a_job_that_is_gone_is_given_back() -> None:
    ordered = first(look(ONE)).state
    cancelled = first(look(()), ordered)
    assert wanted(cancelled) == {}
    assert booked(cancelled) == []


def test_a_job_that_has_room_gets_no_worker() -> None:
    view = look(ONE, edge(worker("general-small-1")), nodes=(node("general-small-1"),))
    decision = first(view, state(target("general-small", 1)))
    assert not decision.changes
    assert plan_of(decision).needed == {"general-small-1"}
    assert booked(decision) == []


def test_a_job_of_several_nodes_holds_what_is_there_until_the_others_come() -> None:
    pending = (group("1", cpus=6, nodes=3), group("2", cpus=2))
    nodes = (node("compute-xs-1"),)
    decision = first(look(pending, edge(worker("compute-xs-1")), nodes=nodes))
    assert Counter(shape for shape, _, jobs in booked(decision) if "1" in jobs).total() == 3
    assert ("compute-xs", "compute-xs-1", {"1": 1}) in booked(decision)
    assert plan_of(decision).needed == {"compute-xs-1"}
    again = first(look(pending, edge(worker("compute-xs-1"), applied=1), nodes=nodes), decision.state)
    assert not again.changes
    assert sorted(map(str, booked(again))) == sorted(map(str, booked(decision)))


def test_jobs_with_wishes_of_their_own_are_served_beside_the_others() -> None:
    pending = (
        group("1", het_job_id="1", cpus=2, features="compute"),
        group("2", het_job_id="1", het_offset=1, cpus=2, features="general"),
        group("3", cpus=2),
    )
    decision = first(look(pending))
    bought = wanted(decision)
    assert sum(bought.values()) == 3
    assert bought["general-xs"] >= 1
    assert [jobs for _, _, jobs in booked(decision)] == [{"3": 1}]
    assert not first(look(pending), decision.state).changes


def test_a_constraint_is_honoured() -> None:
    decision = first(look((group("1", features="memory"),)))
    assert set(wanted(decision)) == {"memory-xs"}


@pytest.mark.parametrize(
    ("limits", "workers"),
    [({"max_workers": 2}, 2), ({"usd_per_hour": 0.16}, 2), ({"most": {"compute-xs": 0, "general-xs": 1}}, 3)],
)
def test_bounds_are_kept_and_told(limits: dict[str, Any], workers: int) -> None:
    pending = tuple(group(str(number), cpus=2, exclusive=True) for number in range(1, 4))
    decision = first(look(pending, **limits))
    bought = wanted(decision)
    assert sum(bought.values()) == workers
    assert all(bought.get(shape, 0) <= most for shape, most in limits.get("most", {}).items())
    cost = sum(CATALOGUE[shape].usd_per_hour * count for shape, count in bought.items())
    assert cost <= limits.get("usd_per_hour", cost) + 1e-9
    assert [each.reason for each in plan_of(decision).unmet] == [CAPPED] * (3 - workers)


def test_a_job_of_several_nodes_is_bought_whole_or_not_at_all() -> None:
    decision = first(look((group("1", cpus=8, nodes=4),), max_workers=3))
    assert wanted(decision) == {}
    assert [each.reason for each in plan_of(decision).unmet] == [CAPPED]


def test_jobs_gather_before_workers_are_bought() -> None:
    fresh = group("1", cpus=2, first_submitted_at=at(NOW - 5))
    decision = first(look((fresh,), gather_seconds=10))
    assert not decision.changes
    assert [each.reason for each in plan_of(decision).unmet] == [BATCHING]
    assert first(look((fresh,), gather_seconds=5)).changes


def test_room_that_will_be_free_before_a_boot_is_waited_for() -> None:
    there = edge(worker("compute-xs-1"))
    nodes = (node("compute-xs-1", used=2),)
    busy = running("9", "compute-xs-1", cpus=2, since=NOW - 3600)
    ends_soon = busy.model_copy(update={"ends_by": at(NOW + 20)})
    before = state(target("compute-xs", 1))
    decision = first(look(ONE, there, runs=(ends_soon,), nodes=nodes), before)
    assert not decision.changes
    assert plan_of(decision).places == {"1": (Place("node", "compute-xs-1", "compute-xs"),)}
    for not_soon in (busy, busy.model_copy(update={"ends_by": at(NOW + 3600)})):
        assert first(look(ONE, there, runs=(not_soon,), nodes=nodes), before).changes
    # It has outlived its limit: nobody knows when it ends.
    overdue = busy.model_copy(update={"ends_by": at(NOW - 1)})
    assert first(look(ONE, there, runs=(overdue,), nodes=nodes), before).changes


def test_one_shape_that_no_catalogue_has_is_told() -> None:
    decision = first(look((group("1", cpus=64),)))
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
def test_every_job_has_its_room_and_nothing_else_is_bought(jobs: list[dict[str, Any]]) -> None:
    pending = tuple(group(str(number), **job) for number, job in enumerate(jobs, start=1))
    view = look(pending, max_workers=1000)
    decision = first(view)
    bookings = decision.state.bookings
    for number, job in enumerate(jobs, start=1):
        shares = sum(each.jobs.get(str(number), 0) for each in bookings)
        assert shares == job["nodes"] * job["count"]
    assert all(each.jobs for each in bookings)
    assert wanted(decision) == dict(Counter(each.shape for each in bookings))
    for each in bookings:
        spec = CATALOGUE[each.shape].worker
        asked = [(pending[int(job_id) - 1], shares) for job_id, shares in each.jobs.items()]
        assert sum(job.cpus // job.nodes * shares for job, shares in asked) <= spec.cpus
        assert sum((job.memory_per_node_mib or 0) * shares for job, shares in asked) <= spec.memory_mib
    assert not decide(view, decision.state, decision.observation_history).changes


CLASS = "open=1|u20001.t9=1"


def closed_to(decision: Decision) -> dict[str, str]:
    return {action.node: action.extra for action in decision.actions if isinstance(action, SetExtra)}


def test_a_worker_refuses_a_job_that_would_keep_it_up_for_long_alone() -> None:
    """The big worker is busy for minutes, the small job runs for days."""
    nodes = (node("memory-xlarge-1", used=30).model_copy(update={"extra": OPEN}),)
    there = edge(worker("memory-xlarge-1"))
    runs = (running("9", "memory-xlarge-1", cpus=30, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 300)}),)
    days = group("1", cpus=2, time_limit_seconds=7 * 86400.0, extra=CLASS)
    before = state(target("memory-xlarge", 1))
    decision = first(look((days,), there, runs=runs, nodes=nodes), before)
    assert wanted(decision) == {"memory-xlarge": 1, "compute-xs": 1}
    assert closed_to(decision) == {"memory-xlarge-1": '{"open":0}'}

    minutes = group("1", cpus=2, time_limit_seconds=60.0, extra=CLASS)
    assert not first(look((minutes,), there, runs=runs, nodes=nodes), before).changes

    # Where no worker can be bought, it waits for nothing.
    capped = first(look((days,), there, runs=runs, nodes=nodes, max_workers=1), before)
    assert not capped.changes
    assert closed_to(capped) == {}
    closed = (nodes[0].model_copy(update={"extra": '{"open":0}'}),)
    assert closed_to(first(look((days,), there, runs=runs, nodes=closed, max_workers=1), before)) == {
        "memory-xlarge-1": '{"open":1}'
    }

    # Slurm asks nobody about a job without a class.
    assert not first(look((days.model_copy(update={"extra": ""}),), there, runs=runs, nodes=nodes), before).changes


@pytest.mark.parametrize(("its_class", "let_in"), [("u20001.t3", '{"open":0,"u20001.t3":1}'), ("u20001.t9", "")])
def test_a_closed_worker_takes_what_first_fit_has_put_there(its_class: str, let_in: str) -> None:
    """A job that excludes a node has a class, and that of others may be the same."""
    nodes = (node("memory-xlarge-1", used=30).model_copy(update={"extra": OPEN}),)
    runs = (running("9", "memory-xlarge-1", cpus=30, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 300)}),)
    days = group("1", cpus=1, time_limit_seconds=7 * 86400.0, extra=CLASS)
    special = group("2", excluded_nodes=("w9",), extra=f"open=1|{its_class}=1")
    view = look((days, special), edge(worker("memory-xlarge-1")), runs=runs, nodes=nodes)
    decision = first(view, state(target("memory-xlarge", 1)))
    assert plan_of(decision).places["2"] == (Place("node", "memory-xlarge-1", "memory-xlarge"),)
    assert closed_to(decision) == ({"memory-xlarge-1": let_in} if let_in else {})


def test_a_closed_worker_is_closed_to_classes_that_nobody_has_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_plan, "MOST_CLASSES", 1)
    nodes = (node("memory-xlarge-1", used=28).model_copy(update={"extra": OPEN}),)
    runs = (running("9", "memory-xlarge-1", cpus=28, since=NOW - 600).model_copy(update={"ends_by": at(NOW + 300)}),)
    days = group("1", cpus=2, time_limit_seconds=7 * 86400.0, extra=CLASS)
    minutes = group("2", cpus=2, time_limit_seconds=60.0, extra="open=1|u20001.t3=1")
    there, before = edge(worker("memory-xlarge-1")), state(target("memory-xlarge", 1))

    decision = first(look((days, minutes), there, runs=runs, nodes=nodes), before)
    assert closed_to(decision) == {"memory-xlarge-1": '{"open":0}'}
    assert all(place.kind == "new" for places in plan_of(decision).places.values() for place in places)

    decision = first(look((minutes, days), there, runs=runs, nodes=nodes), before)
    assert closed_to(decision) == {}
    assert not decision.changes

    # It takes what it is booked for.
    booked = (Booking(shape="memory-xlarge", worker="memory-xlarge-1", jobs={"2": 1}, bought_at=at(NOW - 5)),)
    fresh = (nodes[0].model_copy(update={"registered_at": at(NOW - 5)}),)
    booked_for = before.model_copy(update={"bookings": booked})
    decision = first(look((days, minutes), there, runs=runs, nodes=fresh), booked_for)
    assert closed_to(decision) == {"memory-xlarge-1": '{"open":0,"u20001.t3":1}'}

    # What can have no other worker is let in, whoever has looked at it.
    decision = first(look((days, minutes), there, runs=runs, nodes=nodes, max_workers=1), before)
    assert not decision.changes
    assert closed_to(decision) == {}


def test_a_policy_that_refuses_nothing_opens_what_another_has_closed() -> None:
    nodes = tuple(
        node(f"compute-xs-{number}", idle_for=1.0).model_copy(update={"extra": extra})
        for number, extra in enumerate(['{"open":0}', "", OPEN, "rack=7"])
    )
    there = edge(*(worker(each.name) for each in nodes))
    registrations = {
        extra: observation(snapshot((group("1", extra=extra),), nodes=nodes), there) for extra in (CLASS, "")
    }
    assert closed_to(first(registrations[""])) == {"compute-xs-0": OPEN}
    assert closed_to(first(registrations[CLASS])) == {"compute-xs-0": OPEN, "compute-xs-1": OPEN}


def test_a_drained_worker_is_opened_before_it_is_undrained() -> None:
    closed = node("compute-xs-1", "IDLE", "DRAIN", reason=OUR_DRAIN).model_copy(update={"extra": '{"open":0}'})
    there = edge(worker("compute-xs-1"))
    before = state(target("compute-xs", 1), drains={"compute-xs-1": at(NOW - 5)})
    decision = first(observation(snapshot((group("1"),), nodes=(closed,)), there), before)
    assert decision.actions == (SetExtra(node="compute-xs-1", extra=OPEN),)
    assert (decision.state.drains, decision.state.undrains) == ({}, {})
    opened = closed.model_copy(update={"extra": OPEN})
    again = first(observation(snapshot((group("1"),), nodes=(opened,)), there), decision.state)
    assert again.actions == (Undrain(node="compute-xs-1"),)
    assert again.state.undrains == {"compute-xs-1": at(NOW)}


def test_an_extra_that_is_not_ours_is_left_alone() -> None:
    nodes = (node("compute-xs-1").model_copy(update={"extra": "rack=7"}),)
    decision = first(look((group("1", extra=CLASS),), edge(worker("compute-xs-1")), nodes=nodes))
    assert closed_to(decision) == {}
