"""Jobs with GPUs, and workers with GPUs beside jobs that ask for none, under both policies."""

from collections import Counter
from typing import Any

import pytest
from clusterra_contracts.node_extra import OPEN, closed
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_contracts.rpc.slurm import SetExtra
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.breakers import Breaker
from clusterra_scaler.planner.observed.observation import Edge
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.requests.gpu_shapes import GpuShapes
from clusterra_scaler.planner.requests.job_costs import JobCosts
from fleet_examples import (
    CATALOGUE,
    NOW,
    START,
    WITH_GPUS,
    at,
    binding,
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

GPU_SHAPES = GpuShapes(WITH_GPUS).names
CLASSED = "open=1|u20001.c1=1"


@pytest.fixture(params=["family", "packing"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def decided(
    policy: str,
    pending: tuple[PendingJobs, ...],
    there: Edge | None = None,
    before: FleetState | None = None,
    **more: Any,
) -> Decision:
    shot = snapshot(pending, more.pop("runs", ()), more.pop("nodes", ()))
    view = observation(shot, there, name=policy, catalogue=more.pop("catalogue", WITH_GPUS), **more)
    return decide(view, before or FleetState.undecided(START), ObservationHistory())


def plan_of(decision: Decision) -> Plan:
    assert decision.plan is not None
    return decision.plan


def bought(policy: str, *pending: PendingJobs, **more: Any) -> dict[str, int]:
    return dict(plan_of(decided(policy, pending, **more)).new)


@pytest.mark.parametrize(
    ("asked", "shapes"),
    [
        ({"gres": "node/gpu=1"}, {"l4-small": 1}),
        ({"gres": "node/gpu:h100=1"}, {"h100-small": 1}),
        ({"gres": "node/gpu=2"}, {"l4-large": 1}),
        ({"gres": "job/gpu=3"}, {"l4-xlarge": 1}),
        # One whose GPUs no worker has is spread over as few as do it.
        ({"gres": "job/gpu=6"}, {"l4-xlarge": 2}),
        ({"gres": "task/gpu=1", "tasks": 4, "cpus": 4}, {"l4-xlarge": 1}),
        ({"gres": "task/gpu:h100=1", "tasks": 2, "cpus": 2}, {"h100-large": 1}),
        ({"gres": "node/gpu=1", "nodes": 2, "cpus": 2}, {"l4-small": 2}),
        ({"gres": "job/gpu=4", "nodes": 2, "cpus": 2}, {"l4-large": 2}),
        ({"gres": "node/gpu=1", "cpus": 9}, {"l4-large": 1}),
        ({"gres": "node/gpu=1", "memory_per_node_mib": None, "memory_per_gpu_mib": 80 * 1024}, {"l4-large": 1}),
        ({"gres": "node/gpu=1", "features": "h100"}, {"h100-small": 1}),
        ({"gres": "node/gpu=1", "features": "l4-xlarge"}, {"l4-xlarge": 1}),
        ({"gres": "node/gpu=1", "exclusive": True}, {"l4-small": 1}),
        ({"gres": "node/gpu=1", "excluded_nodes": ("l4-small-9",)}, {"l4-small": 1}),
    ],
    ids=str,
)
def test_the_cheapest_shape_that_holds_it_is_bought(policy: str, asked: dict[str, Any], shapes: dict[str, int]) -> None:
    assert bought(policy, group("1", **asked)) == shapes


def test_jobs_share_the_gpus_of_workers_that_come(policy: str) -> None:
    singles = group(*map(str, range(1, 6)), gres="node/gpu:l4=1")
    assert bought(policy, singles) == {"l4-small": 5}
    ordered = state(target("l4-xlarge", 1))
    assert bought(policy, singles, before=ordered) == {"l4-small": 1}
    booting = edge(worker("l4-xlarge-1", "booting", started=NOW))
    assert bought(policy, singles, before=ordered, there=booting) == {"l4-small": 1}


def test_what_was_bought_is_not_bought_again(policy: str) -> None:
    pending = (group("1", gres="node/gpu=2"), group("2", gres="node/gpu=1", nodes=2, cpus=2), group("3", cpus=2))
    first = decided(policy, pending)
    assert not decided(policy, pending, before=first.state).changes


def test_free_gpus_are_used_and_busy_ones_are_not(policy: str) -> None:
    there, fleet = edge(worker("l4-large-1")), state(target("l4-large", 1))
    nodes = (node("l4-large-1", used=1),)
    half = (running("9", "l4-large-1", gres={"l4-large-1": {"gpu:l4": 1}}),)
    one, two = group("1", gres="node/gpu=1"), group("1", gres="node/gpu=2")
    decision = decided(policy, (one,), there, fleet, runs=half, nodes=nodes)
    assert plan_of(decision).needed == {"l4-large-1"}
    assert not decision.changes
    assert bought(policy, two, there=there, before=fleet, runs=half, nodes=nodes) == {"l4-large": 1}
    # All CPUs are taken: its GPUs are of no use.
    full = (running("9", "l4-large-1", cpus=16),)
    assert bought(policy, one, there=there, before=fleet, runs=full, nodes=(node("l4-large-1", used=16),)) == {
        "l4-small": 1
    }


def test_a_job_that_started_between_the_looks_has_its_gpus(policy: str) -> None:
    """The node tells them as given away, and the job is still told to wait."""
    nodes = (node("l4-small-1", used=1).model_copy(update={"gres_allocated": {"gpu:l4": 1}}),)
    there, fleet = edge(worker("l4-small-1")), state(target("l4-small", 1))
    decision = decided(policy, (group("1", gres="node/gpu=1"),), there, fleet, nodes=nodes)
    assert not decision.changes


def test_types_are_known_although_slurm_has_forgotten_them(policy: str) -> None:
    untyped = (node("l4-small-1").model_copy(update={"gres": {"gpu": 1}}),)
    there, fleet = edge(worker("l4-small-1")), state(target("l4-small", 1))
    assert bought(policy, group("1", gres="node/gpu:l4=1"), there=there, before=fleet, nodes=untyped) == {}
    assert bought(policy, group("1", gres="node/gpu:h100=1"), there=there, before=fleet, nodes=untyped) == {
        "h100-small": 1
    }


def test_a_gang_uses_free_gpus_and_buys_the_rest_or_nothing(policy: str) -> None:
    there, fleet, nodes = edge(worker("l4-small-1")), state(target("l4-small", 1)), (node("l4-small-1"),)
    gang = group("1", gres="node/gpu=1", nodes=3, cpus=3)
    assert bought(policy, gang, there=there, before=fleet, nodes=nodes) == {"l4-small": 2}
    few = decided(policy, (gang,), there, fleet, nodes=nodes, max_workers=2)
    assert plan_of(few).new == {}
    assert [each.reason for each in plan_of(few).unmet] == ["the cluster has as many workers as it may have"]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"gres": "node/gpu:a100=1"}, "no shape has gpu:a100:1"),
        ({"gres": "node/gpu=5"}, "no shape has gpu:5"),
        ({"gres": "node/shard=1"}, "no shape has shard:1"),
        ({"gres": "node/gpu:l4=1", "features": "h100"}, "no shape with gpu:l4:1 has the features 'h100'"),
        ({"gres": "node/gpu=1", "features": "general"}, "no shape with gpu:1 has the features 'general'"),
        ({"gres": "node/gpu:l4=1", "cpus_per_task": 33, "cpus": 33}, "no shape has gpu:l4:1 with 33 CPUs"),
        ({"features": "a100"}, "no shape has the features 'a100'"),
        ({"features": "l4", "cpus_per_task": 33, "cpus": 33}, "no shape has 33 CPUs"),
        ({"memory_per_node_mib": 300 * 1024}, "no shape has 1 CPUs and 307200 MiB on one node"),
        ({"gres": "node/gpu=x"}, "what it asks for cannot be honoured"),
    ],
    ids=str,
)
def test_why_no_shape_fits(policy: str, asked: dict[str, Any], reason: str) -> None:
    plan = plan_of(decided(policy, (group("1", **asked),)))
    assert [each.reason[: len(reason)] for each in plan.unmet] == [reason]
    assert plan.new == {}


def test_a_catalogue_without_gpus_has_none(policy: str) -> None:
    plan = plan_of(decided(policy, (group("1", gres="node/gpu=1"),), catalogue=CATALOGUE))
    assert [each.reason for each in plan.unmet] == ["no shape has gpu:1"]


def test_what_is_too_big_for_other_shapes_does_not_go_to_those_with_gpus(policy: str) -> None:
    few = WITH_GPUS.model_copy(
        update={"shapes": tuple(shape for shape in WITH_GPUS.shapes if shape.vcpu <= 8 or shape.gpu_count)}
    )
    plan = plan_of(decided(policy, (group("1", cpus=9, cpus_per_task=9),), catalogue=few))
    assert [each.reason for each in plan.unmet] == ["no shape without GPUs has 9 CPUs and 2048 MiB on one node"]
    # Where it may run on several nodes it does.
    assert bought(policy, group("1", cpus=9, tasks=9), catalogue=few) == {"compute-medium": 2}


@pytest.mark.parametrize(
    ("features", "shapes"),
    [
        ("", {"compute-xs": 1}),
        ("l4|compute", {"compute-xs": 1}),
        ("l4", {"l4-small": 1}),
        ("h100|l4", {"l4-small": 1}),
        ("l4-xlarge", {"l4-xlarge": 1}),
        ("h100&h100-small", {"h100-small": 1}),
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_jobs_without_gpus_get_others_unless_their_constraint_allows_nothing_else(
    policy: str, features: str, shapes: dict[str, int], nodes: int
) -> None:
    asked = group("1", features=features, nodes=nodes, cpus=nodes)
    assert bought(policy, asked) == {shape: count * nodes for shape, count in shapes.items()}


def test_jobs_without_gpus_do_not_wait_for_workers_with_gpus_nor_go_there(policy: str) -> None:
    there, fleet = (
        edge(worker("l4-xlarge-1"), worker("l4-xlarge-2", "booting", started=NOW)),
        state(target("l4-xlarge", 2)),
    )
    nodes = (node("l4-xlarge-1"),)
    for asked in (group("1"), group("1", excluded_nodes=("w1",)), group("1", nodes=2, cpus=2)):
        more = bought(policy, asked, there=there, before=fleet, nodes=nodes)
        assert more == {"compute-xs": asked.nodes}, asked
    named = decided(policy, (group("1", required_nodes=("l4-xlarge-1",)),), there, fleet, nodes=nodes)
    assert plan_of(named).needed == {"l4-xlarge-1"}
    wanted = decided(policy, (group("1", features="l4"),), there, fleet, nodes=nodes)
    assert plan_of(wanted).needed == {"l4-xlarge-1"}
    assert plan_of(wanted).new == {}


def test_breakers_of_cheap_shapes_do_not_send_jobs_to_gpus(policy: str) -> None:
    cheap = tuple(breaker(shape.name) for shape in CATALOGUE.shapes)
    broken = FleetState.undecided(START).model_copy(update={"breakers": cheap})
    asked = group("1", features="compute|l4")
    # As where no shape can be had: the one that would be chosen is ordered all the same.
    assert bought(policy, asked, before=broken) == {"compute-xs": 1}


def test_jobs_go_to_other_gpus_while_a_shape_is_out(policy: str) -> None:
    broken = FleetState.undecided(START).model_copy(update={"breakers": (breaker("l4-small"),)})
    assert bought(policy, group("1", gres="node/gpu=1"), before=broken) == {"l4-large": 1}
    every_l4 = tuple(breaker(f"l4-{size}") for size in ("small", "large", "xlarge"))
    broken = FleetState.undecided(START).model_copy(update={"breakers": every_l4})
    assert bought(policy, group("1", gres="node/gpu=1"), before=broken) == {"h100-small": 1}
    # One that asks for the model waits for it: one job's worth is ordered.
    typed = plan_of(decided(policy, (group("1", "2", gres="node/gpu:l4=1"),), before=broken))
    assert typed.new == {"l4-small": 1}
    assert ["no capacity for l4-large" in each.reason for each in typed.unmet] == [True]


def test_budgets_hold(policy: str) -> None:
    jobs = group("1", "2", "3", gres="node/gpu=1")
    assert bought(policy, jobs, usd_per_hour=1.7) == {"l4-small": 2}
    assert bought(policy, jobs, most={"l4-small": 1}) == {"l4-small": 1}
    assert bought(policy, jobs, max_workers=1) == {"l4-small": 1}


def breaker(shape: str) -> Breaker:
    at_once = at(NOW - 1)
    return Breaker(
        shape=shape, why=f"no capacity for {shape}", message="", opened_at=at_once, failed_at=at_once, failures=1
    )


def extras(decision: Decision) -> dict[str, str]:
    return {action.node: action.extra for action in decision.actions if isinstance(action, SetExtra)}


def told(name: str, extra: str) -> NodeState:
    return node(name, idle_for=10).model_copy(update={"extra": extra})


def test_workers_with_gpus_are_closed_but_to_jobs_that_can_run_nowhere_else(policy: str) -> None:
    there = edge(worker("l4-small-1"), worker("compute-xs-1"))
    fleet = state(target("l4-small", 1), target("compute-xs", 1))
    nodes = (told("l4-small-1", OPEN), told("compute-xs-1", OPEN))
    assert extras(decided(policy, (), there, fleet, nodes=nodes)) == {"l4-small-1": closed()}
    shut = (told("l4-small-1", closed()), told("compute-xs-1", OPEN))
    assert extras(decided(policy, (group("1", cpus=2, extra=CLASSED),), there, fleet, nodes=shut)) == {}
    wanted = group("1", features="l4", extra="open=1|u20001.c1.xl4=1")
    let_in = closed(["u20001.c1.xl4"])
    assert extras(decided(policy, (wanted,), there, fleet, nodes=shut)) == {"l4-small-1": let_in}
    classed = group("1", gres="job/gpu=1", extra="open=1|u20001.c1.xl4=1")
    assert extras(decided(policy, (classed,), there, fleet, nodes=shut)) == {"l4-small-1": let_in}
    again = (told("l4-small-1", let_in), told("compute-xs-1", OPEN))
    assert extras(decided(policy, (wanted,), there, fleet, nodes=again)) == {}
    assert extras(decided(policy, (), there, fleet, nodes=again)) == {"l4-small-1": closed()}


def test_extras_that_say_something_else_are_left_alone(policy: str) -> None:
    there, fleet = edge(worker("l4-small-1"), worker("l4-small-2")), state(target("l4-small", 2))
    nodes = (told("l4-small-1", "rack=7"), told("l4-small-2", ""))
    assert extras(decided(policy, (), there, fleet, nodes=nodes)) == {}
    wanted = group("1", features="l4", extra=CLASSED)
    assert extras(decided(policy, (wanted,), there, fleet, nodes=nodes)) == {"l4-small-2": closed(["u20001.c1"])}


def test_a_job_costs_the_share_of_gpus_where_that_is_more() -> None:
    runs = (
        running("1", "l4-xlarge-1", gres={"l4-xlarge-1": {"gpu:l4": 1}}),
        running("2", "l4-xlarge-1", cpus=16, gres={"l4-xlarge-1": {"gpu:l4": 1}}),
        running("3", "l4-xlarge-1", cpus=8),
        running(
            "4", "l4-xlarge-1", "l4-small-1", cpus=2, gres={"l4-xlarge-1": {"gpu:l4": 2}, "l4-small-1": {"gpu": 1}}
        ),
    )
    shot = snapshot((), runs, (node("l4-xlarge-1"), node("l4-small-1")))
    costs = JobCosts(shot, binding(WITH_GPUS))
    assert [costs.usd_per_hour(job) for job in runs] == pytest.approx([0.8, 1.6, 0.8, 1.6 + 0.8])


any_group = st.builds(
    lambda cpus, memory, gres, features, nodes, extra: {
        "cpus": cpus * nodes,
        "memory_per_node_mib": memory,
        "gres": gres,
        "features": features,
        "nodes": nodes,
        "extra": extra,
    },
    st.integers(1, 40),
    st.sampled_from([100, 2048, 65_536, 200_000]),
    st.sampled_from(["", "", "node/gpu=1", "node/gpu:l4=2", "job/gpu=4", "node/gpu:h100=1", "node/gpu:a100=1"]),
    st.sampled_from(["", "", "", "l4", "compute", "h100|general", "l4-xlarge|h100"]),
    st.sampled_from([1, 1, 2]),
    st.sampled_from(["", CLASSED]),
)


@given(st.lists(any_group, max_size=8), st.sampled_from(["family", "packing"]), st.sampled_from([3, 100]))
def test_only_jobs_for_gpus_cause_workers_with_gpus(asked: list[dict[str, Any]], name: str, most: int) -> None:
    pending = tuple(group(str(number), **each) for number, each in enumerate(asked, start=1))
    plan = plan_of(decided(name, pending, max_workers=most))
    known = {each.job_ids[0]: each for each in pending}
    shapes = {shape.name: shape for shape in WITH_GPUS.shapes}
    for shape, job_ids in plan.jobs.items():
        for job_id in job_ids:
            job = known[job_id]
            wants = bool(job.gres) or job.features in ("l4", "l4-xlarge|h100")
            assert bool(shapes[shape].gpu_count) == wants
    # Each has all of its places or is told why not, and no worker has more jobs than GPUs.
    unmet = {each.demand.job_ids[0] for each in plan.unmet}
    assert known.keys() == plan.places.keys() | unmet
    assert Counter(plan.new).total() <= most


def test_what_has_no_type_is_taken_to_start_on_the_cheaper_model_as_slurm_does_it(policy: str) -> None:
    nodes = tuple(node(name, idle_for=1.0) for name in ("h100-small-1", "l4-small-1"))
    there, before = edge(*(worker(each.name) for each in nodes)), state(target("h100-small", 1), target("l4-small", 1))
    untyped, typed = group("1", cpus=4, gres="node/gpu=1"), group("2", cpus=1, gres="node/gpu:h100=1")
    assert bought(policy, untyped, typed, there=there, before=before, nodes=nodes) == {}
