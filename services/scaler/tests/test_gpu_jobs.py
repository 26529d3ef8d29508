"""Jobs with GPUs, and jobs without GPUs beside workers with GPUs, under both policies."""

from collections import Counter
from typing import Any

import pytest
from clusterra_scaler.planner.observed.breakers import ShapeBreaker
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import (
    CATALOGUE,
    NOW,
    START,
    WITH_GPUS,
    at,
    edge,
    group,
    node,
    running,
    state,
    target,
    worker,
)
from gpu_examples import CLASSED, bought, decision_of, plan_of
from hypothesis import given
from hypothesis import strategies as st


def open_breaker(shape: str) -> ShapeBreaker:
    failed_at = at(NOW - 1)
    why = f"no capacity for {shape}"
    return ShapeBreaker(shape=shape, why=why, message="", opened_at=failed_at, failed_at=failed_at, failures=1)


@pytest.mark.parametrize(
    ("asked", "shapes"),
    [
        ({"gres": "node/gpu=1"}, {"l4-small": 1}),
        ({"gres": "node/gpu:h100=1"}, {"h100-small": 1}),
        ({"gres": "node/gpu=2"}, {"l4-large": 1}),
        ({"gres": "job/gpu=3"}, {"l4-xlarge": 1}),
        # A job with more GPUs than any worker has is spread over as few workers as possible.
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
def test_the_cheapest_fitting_shape_is_bought(policy: str, asked: dict[str, Any], shapes: dict[str, int]) -> None:
    assert bought(policy, group("1", **asked)) == shapes


def test_jobs_share_the_gpus_of_coming_workers(policy: str) -> None:
    singles = group(*map(str, range(1, 6)), gres="node/gpu:l4=1")
    ordered = state(target("l4-xlarge", 1))
    booting = edge(worker("l4-xlarge-1", "booting", started=NOW))

    assert bought(policy, singles) == {"l4-small": 5}
    assert bought(policy, singles, before=ordered) == {"l4-small": 1}
    assert bought(policy, singles, before=ordered, report=booting) == {"l4-small": 1}


def test_the_same_workers_are_not_bought_twice(policy: str) -> None:
    pending = (group("1", gres="node/gpu=2"), group("2", gres="node/gpu=1", nodes=2, cpus=2), group("3", cpus=2))

    first = decision_of(policy, pending)

    assert not decision_of(policy, pending, before=first.state).changes


def test_free_gpus_are_used_and_busy_ones_are_not(policy: str) -> None:
    report, fleet = edge(worker("l4-large-1")), state(target("l4-large", 1))
    job = running("9", "l4-large-1", gres={"l4-large-1": {"gpu:l4": 1}})
    half = {"nodes": (node("l4-large-1", used=1),), "runs": (job,)}
    one, two = group("1", gres="node/gpu=1"), group("1", gres="node/gpu=2")

    fitting = decision_of(policy, (one,), report, fleet, **half)

    assert plan_of(fitting).needed == {"l4-large-1"}
    assert not fitting.changes
    assert bought(policy, two, report=report, before=fleet, **half) == {"l4-large": 1}


def test_free_gpus_without_free_cpus_are_of_no_use(policy: str) -> None:
    report, fleet = edge(worker("l4-large-1")), state(target("l4-large", 1))
    full = {"nodes": (node("l4-large-1", used=16),), "runs": (running("9", "l4-large-1", cpus=16),)}

    assert bought(policy, group("1", gres="node/gpu=1"), report=report, before=fleet, **full) == {"l4-small": 1}


def test_a_job_that_started_between_the_two_reads_has_its_gpus(policy: str) -> None:
    """The node reports its GPUs as allocated, and the job is still listed as pending."""
    nodes = (node("l4-small-1", used=1).model_copy(update={"gres_allocated": {"gpu:l4": 1}}),)
    report, fleet = edge(worker("l4-small-1")), state(target("l4-small", 1))
    decision = decision_of(policy, (group("1", gres="node/gpu=1"),), report, fleet, nodes=nodes)
    assert not decision.changes


def test_gpu_types_are_known_even_if_slurm_does_not_report_them(policy: str) -> None:
    untyped = (node("l4-small-1").model_copy(update={"gres": {"gpu": 1}}),)
    report, fleet = edge(worker("l4-small-1")), state(target("l4-small", 1))
    assert bought(policy, group("1", gres="node/gpu:l4=1"), report=report, before=fleet, nodes=untyped) == {}
    assert bought(policy, group("1", gres="node/gpu:h100=1"), report=report, before=fleet, nodes=untyped) == {
        "h100-small": 1
    }


def test_a_job_of_several_nodes_uses_free_gpus_and_buys_the_rest_or_nothing(policy: str) -> None:
    report, fleet, nodes = edge(worker("l4-small-1")), state(target("l4-small", 1)), (node("l4-small-1"),)
    gang = group("1", gres="node/gpu=1", nodes=3, cpus=3)
    assert bought(policy, gang, report=report, before=fleet, nodes=nodes) == {"l4-small": 2}
    limited = decision_of(policy, (gang,), report, fleet, nodes=nodes, max_workers=2)
    assert plan_of(limited).new == {}
    assert [each.reason for each in plan_of(limited).unmet] == [
        "the cluster has reached its limit on workers or on USD per hour"
    ]


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
def test_the_reason_why_no_shape_fits(policy: str, asked: dict[str, Any], reason: str) -> None:
    plan = plan_of(decision_of(policy, (group("1", **asked),)))
    assert [each.reason[: len(reason)] for each in plan.unmet] == [reason]
    assert plan.new == {}


def test_a_catalogue_without_gpus_fits_no_job_with_gpus(policy: str) -> None:
    plan = plan_of(decision_of(policy, (group("1", gres="node/gpu=1"),), catalogue=CATALOGUE))
    assert [each.reason for each in plan.unmet] == ["no shape has gpu:1"]


def test_a_job_too_big_for_shapes_without_gpus_gets_no_shape_with_gpus(policy: str) -> None:
    catalogue = WITH_GPUS.model_copy(
        update={"shapes": tuple(shape for shape in WITH_GPUS.shapes if shape.vcpu <= 8 or shape.gpu_count)}
    )

    plan = plan_of(decision_of(policy, (group("1", cpus=9, cpus_per_task=9),), catalogue=catalogue))

    assert [each.reason for each in plan.unmet] == ["no shape without GPUs has 9 CPUs and 2048 MiB on one node"]
    # A job that may run on several nodes does.
    assert bought(policy, group("1", cpus=9, tasks=9), catalogue=catalogue) == {"compute-medium": 2}


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
def test_jobs_without_gpus_get_shapes_without_gpus_unless_their_constraint_excludes_these(
    policy: str, features: str, shapes: dict[str, int], nodes: int
) -> None:
    asked = group("1", features=features, nodes=nodes, cpus=nodes)
    assert bought(policy, asked) == {shape: count * nodes for shape, count in shapes.items()}


def test_jobs_without_gpus_do_not_use_or_wait_for_workers_with_gpus(policy: str) -> None:
    report = edge(worker("l4-xlarge-1"), worker("l4-xlarge-2", "booting", started=NOW))
    fleet, nodes = state(target("l4-xlarge", 2)), (node("l4-xlarge-1"),)

    for job in (group("1"), group("1", excluded_nodes=("w1",)), group("1", nodes=2, cpus=2)):
        assert bought(policy, job, report=report, before=fleet, nodes=nodes) == {"compute-xs": job.nodes}, job


def test_jobs_without_gpus_use_a_worker_with_gpus_that_they_ask_for(policy: str) -> None:
    report, fleet, nodes = edge(worker("l4-xlarge-1")), state(target("l4-xlarge", 1)), (node("l4-xlarge-1"),)

    for job in (group("1", required_nodes=("l4-xlarge-1",)), group("1", features="l4")):
        plan = plan_of(decision_of(policy, (job,), report, fleet, nodes=nodes))

        assert plan.needed == {"l4-xlarge-1"}
        assert plan.new == {}


def test_an_outage_of_cheap_shapes_does_not_send_jobs_without_gpus_to_gpus(policy: str) -> None:
    cheap = tuple(open_breaker(shape.name) for shape in CATALOGUE.shapes)
    broken = FleetState.initial(START).model_copy(update={"breakers": cheap})
    asked = group("1", features="compute|l4")
    # As in any outage of all shapes, the shape that would be chosen is ordered all the same.
    assert bought(policy, asked, before=broken) == {"compute-xs": 1}


def test_jobs_get_other_gpus_while_a_shape_is_unavailable(policy: str) -> None:
    one_shape = FleetState.initial(START).model_copy(update={"breakers": (open_breaker("l4-small"),)})
    assert bought(policy, group("1", gres="node/gpu=1"), before=one_shape) == {"l4-large": 1}

    every_l4 = tuple(open_breaker(f"l4-{size}") for size in ("small", "large", "xlarge"))
    all_of_l4 = FleetState.initial(START).model_copy(update={"breakers": every_l4})
    assert bought(policy, group("1", gres="node/gpu=1"), before=all_of_l4) == {"h100-small": 1}

    # Jobs that request the model wait for it: workers for one of them are ordered.
    typed = plan_of(decision_of(policy, (group("1", "2", gres="node/gpu:l4=1"),), before=all_of_l4))
    assert typed.new == {"l4-small": 1}
    assert ["no capacity for l4-large" in each.reason for each in typed.unmet] == [True]


def test_limits_and_budgets_hold(policy: str) -> None:
    jobs = group("1", "2", "3", gres="node/gpu=1")
    assert bought(policy, jobs, usd_per_hour=1.7) == {"l4-small": 2}
    assert bought(policy, jobs, most={"l4-small": 1}) == {"l4-small": 1}
    assert bought(policy, jobs, max_workers=1) == {"l4-small": 1}


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
def test_workers_with_gpus_are_bought_only_for_jobs_that_request_gpus(
    asked: list[dict[str, Any]], name: str, most: int
) -> None:
    pending = tuple(group(str(number), **each) for number, each in enumerate(asked, start=1))
    known = {each.job_ids[0]: each for each in pending}
    shapes = {shape.name: shape for shape in WITH_GPUS.shapes}

    plan = plan_of(decision_of(name, pending, max_workers=most))

    for shape, job_ids in plan.jobs.items():
        for job_id in job_ids:
            job = known[job_id]
            requests_gpus = bool(job.gres) or job.features in ("l4", "l4-xlarge|h100")
            assert bool(shapes[shape].gpu_count) == requests_gpus
    # Each job has places or a reason why not.
    unmet = {each.demand.job_ids[0] for each in plan.unmet}
    assert known.keys() == plan.places.keys() | unmet
    assert Counter(plan.new).total() <= most


def test_jobs_for_any_gpu_are_assigned_to_the_cheaper_model_like_slurm_does(policy: str) -> None:
    nodes = tuple(node(name, idle_for=1.0) for name in ("h100-small-1", "l4-small-1"))
    report, before = edge(*(worker(each.name) for each in nodes)), state(target("h100-small", 1), target("l4-small", 1))
    untyped, typed = group("1", cpus=4, gres="node/gpu=1"), group("2", cpus=1, gres="node/gpu:h100=1")
    assert bought(policy, untyped, typed, report=report, before=before, nodes=nodes) == {}
