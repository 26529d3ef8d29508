"""The shapes that an explanation compares, each from a decision that was really made."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from clusterra_contracts.alternatives import MOST_ALTERNATIVES, Alternative, Verdict
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.why import Explanation
from clusterra_contracts.shape_fit import new_workers
from clusterra_scaler.planner.observed.breakers import ShapeBreaker
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.requests.demand import demand_of
from explanation_examples import ADA, empty_cluster, explained
from fleet_examples import (
    CATALOGUE,
    NOW,
    WITH_GPUS,
    at,
    edge,
    group,
    node,
    observation,
    running,
    snapshot,
    state,
    worker,
)
from hypothesis import given
from hypothesis import strategies as st

PACKING: Mapping[str, Any] = {"name": "packing"}
FIT = {"chosen", "preferred", "costlier", "unneeded", "by_rule", "limited", "unavailable"}


def by_shape(answer: Explanation) -> dict[str, Alternative]:
    return {each.shape: each for each in answer.alternatives}


def verdicts(view: Observation, *before: Any) -> dict[str, Verdict]:
    return {each.shape: each.verdict for each in explained("1", view, *before).alternatives}


def failing(shape: str) -> ShapeBreaker:
    why = f"no capacity for {shape}"
    return ShapeBreaker(shape=shape, why=why, message="", opened_at=at(NOW - 10), failed_at=at(NOW - 10), failures=1)


jobs = st.builds(
    lambda cpus, gib, hours, nodes: group(
        "1", cpus=cpus * nodes, nodes=nodes, memory_per_node_mib=gib * 1024, time_limit_seconds=hours * 3600.0
    ),
    st.integers(1, 32),
    st.integers(1, 256),
    st.sampled_from([0.1, 1.0, 24.0]),
    st.integers(1, 2),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_workers": st.integers(0, 3),
        "usd_per_hour": st.floats(0.01, 3.0),
        "most": st.dictionaries(st.sampled_from([shape.name for shape in CATALOGUE.shapes]), st.integers(0, 2)),
    },
)
broken = st.sets(st.sampled_from([shape.name for shape in CATALOGUE.shapes]), max_size=6)


@given(jobs, limits, broken)
def test_the_chosen_shape_is_the_cheapest_that_fits_and_can_be_had(
    job: PendingJobs, policy: dict[str, Any], out: set[str]
) -> None:
    before = state(breakers=tuple(failing(shape) for shape in sorted(out)))
    told = explained("1", empty_cluster(job, **PACKING, **policy), before).alternatives

    fitting = [each for each in told if each.verdict in FIT]
    chosen = [each for each in told if each.verdict == "chosen"]
    fits = new_workers(CATALOGUE)
    assert bool(fitting) == all(fits(part.need) for part in demand_of([job], fits).parts)
    assert all(each.expected_usd is not None and each.job_usd_per_hour is not None for each in fitting)
    available = [each for each in fitting if each.verdict not in ("limited", "unavailable")]
    if available and out.isdisjoint(each.shape for each in chosen):
        (chosen_one,) = chosen
        assert chosen_one.expected_usd == min(each.expected_usd or 0.0 for each in available)
        assert chosen_one is told[0]
        assert {each.verdict for each in available} <= {"chosen", "costlier"}
    # The shapes that are out are ordered for a job alone that fits no other.
    assert {each.shape for each in fitting if each.verdict == "unavailable"} | {each.shape for each in chosen} >= {
        each.shape for each in fitting if each.shape in out
    }


@given(jobs, limits, broken, st.sampled_from(["packing", "family"]))
def test_no_shape_is_told_twice_and_each_is_told(
    job: PendingJobs, policy: dict[str, Any], out: set[str], name: str
) -> None:
    before = state(breakers=tuple(failing(shape) for shape in sorted(out)))
    told = explained("1", empty_cluster(job, name=name, **policy), before).alternatives

    assert sorted(each.shape for each in told) == sorted(shape.name for shape in CATALOGUE.shapes)
    assert all(each.text.endswith(".") and "\n" not in each.text for each in told)
    assert all(bool(each.lacks) == (each.verdict == "too_small") for each in told)
    assert all((each.job_usd_per_hour is not None) == (each.verdict in FIT) for each in told)


def test_at_most_twenty_shapes_are_told_the_nearest_first() -> None:
    told = explained("1", empty_cluster(group("1"), catalogue=WITH_GPUS, **PACKING)).alternatives

    assert len(WITH_GPUS.shapes) > len(told) == MOST_ALTERNATIVES
    assert told[0].verdict == "chosen"
    assert [each.verdict for each in told[15:]] == ["not_for_it"] * 5


BIG = group("1", cpus=4, memory_per_node_mib=24 * 1024, time_limit_seconds=3600)
SMALL = group("1", cpus=4, memory_per_node_mib=8 * 1024, time_limit_seconds=3600)
CASES: tuple[tuple[Verdict, str, str, Observation, tuple[ShapeBreaker, ...]], ...] = (
    ("chosen", "memory-small", "It is planned on a worker of this shape.", empty_cluster(BIG, **PACKING), ()),
    (
        *("costlier", "memory-medium", "The job is expected to add 0.0318 USD more than on memory-small."),
        *(empty_cluster(BIG, **PACKING), ()),
    ),
    (
        *("costlier", "general-small", "It costs as much as compute-small, which comes first."),
        *(empty_cluster(SMALL, **PACKING), ()),
    ),
    (
        *("costlier", "l4-large", "A worker costs 0.8000 USD per hour more than one of l4-small."),
        *(empty_cluster(group("1", gres="node/gpu=1"), catalogue=WITH_GPUS, **PACKING), ()),
    ),
    (
        *("too_small", "general-xs", "Too small: 4 CPUs asked, 2 there; 24 GiB asked, 8 GiB there."),
        *(empty_cluster(BIG, **PACKING), ()),
    ),
    (
        *("too_small", "memory-xlarge", "Too small: gpu:1 asked, none there."),
        *(empty_cluster(group("1", gres="node/gpu=1"), catalogue=WITH_GPUS, **PACKING), ()),
    ),
    (
        *("not_for_it", "l4-small", "Workers with GPUs are only for jobs that ask for GPUs."),
        *(empty_cluster(BIG, catalogue=WITH_GPUS, **PACKING), ()),
    ),
    (
        *("not_for_it", "general-xlarge", "Its features do not meet the constraint 'memory'."),
        *(empty_cluster(group("1", features="memory"), **PACKING), ()),
    ),
    (
        *("not_for_it", "compute-xs", "It asks for the node n1, which no new worker can be."),
        *(empty_cluster(group("1", required_nodes=("n1",)), **PACKING), ()),
    ),
    (
        *("limited", "compute-small", "The policy allows no worker of this shape."),
        *(empty_cluster(SMALL, most={"compute-small": 0}, **PACKING), ()),
    ),
    (
        *("limited", "compute-small", "The cluster's limit of 0 workers leaves room for no more."),
        *(empty_cluster(SMALL, max_workers=0, **PACKING), ()),
    ),
    (
        *("limited", "compute-small", "The limit of 1 workers of this shape leaves room for 1 of the 2 that it needs."),
        *(empty_cluster(SMALL.model_copy(update={"cpus": 8, "nodes": 2}), most={"compute-small": 1}, **PACKING), ()),
    ),
    (
        *("limited", "compute-small", "The cluster's limit on USD per hour leaves room for no more."),
        *(empty_cluster(SMALL, usd_per_hour=0.1, **PACKING), ()),
    ),
    (
        *("unavailable", "memory-small"),
        "It is not bought at present: no capacity for memory-small since 12:16 UTC.",
        *(empty_cluster(BIG, **PACKING), (failing("memory-small"),)),
    ),
    (
        *("by_rule", "memory-small", "Its memory per CPU makes it a job for the family general."),
        *(empty_cluster(BIG), ()),
    ),
    (
        *("by_rule", "general-large"),
        "Another size of the family general is bought: the largest that a waiting job of the family needs.",
        *(empty_cluster(BIG), ()),
    ),
    (
        *("preferred", "memory-small"),
        "It would be bought, but no worker is bought now: workers are bought for several jobs together in a moment.",
        empty_cluster(BIG.model_copy(update={"first_submitted_at": at(NOW - 5)}), gather_seconds=30.0, **PACKING),
        (),
    ),
    (
        *("unneeded", "compute-xs"),
        "The job alone would cost less here. Its place is on a worker that is there, is coming, or is shared with "
        "other jobs.",
        observation(
            snapshot((group("1", time_limit_seconds=3600),), nodes=(node("memory-xlarge-a"),)),
            edge(worker("memory-xlarge-a")),
            wait_usd_per_hour=1000.0,
            **PACKING,
        ),
        (),
    ),
)


@pytest.mark.parametrize(("verdict", "shape", "text", "view", "out"), CASES)
def test_each_verdict_and_its_text(
    verdict: Verdict, shape: str, text: str, view: Observation, out: tuple[ShapeBreaker, ...]
) -> None:
    found = by_shape(explained("1", view, state(breakers=out)))[shape]

    assert (found.verdict, found.text) == (verdict, text)
    assert found.usd_per_hour == WITH_GPUS[shape].usd_per_hour


def test_the_table_has_every_verdict() -> None:
    assert {case[0] for case in CASES} == set(get_args(Verdict))


def test_jobs_that_the_limit_leaves_without_workers_learn_what_others_have_left() -> None:
    jobs = (group("9", cpus=32, first_submitted_at=at(NOW - 900)), group("1", cpus=32, uid=20002))
    view = empty_cluster(*jobs, max_workers=1, **PACKING)
    told = {
        each: explained(each, view, viewer=ADA.model_copy(update={"admin": True})).alternatives[0]
        for each in ("9", "1")
    }

    assert sorted(each.verdict for each in told.values()) == ["chosen", "limited"]


def test_a_running_job_runs_on_the_chosen_shape() -> None:
    job = running("1", "memory-small-a", cpus=1).model_copy(update={"memory_mib": 20 * 1024})
    view = observation(
        snapshot((), (job,), (node("memory-small-a", used=1),)), edge(worker("memory-small-a")), **PACKING
    )
    told = explained("1", view).alternatives

    assert (told[0].shape, told[0].verdict) == ("memory-small", "chosen")
    assert told[0].text == "It runs on a worker of this shape."
    # 20 of 32 GiB of a worker for 0.16 USD per hour.
    assert told[0].job_usd_per_hour == pytest.approx(0.1)
    assert {each.verdict for each in told[1:]} == {"costlier", "too_small"}


def test_a_running_job_on_a_larger_worker_than_it_needs() -> None:
    view = observation(
        snapshot((), (running("1", "general-xlarge-a"),), (node("general-xlarge-a", used=1),)),
        edge(worker("general-xlarge-a")),
        **PACKING,
    )
    told = by_shape(explained("1", view))

    assert told["general-xlarge"].verdict == "chosen"
    assert told["compute-xs"].verdict == "unneeded"
    assert told["compute-xs"].text.startswith("The job alone would cost less here. It runs on a worker that was there,")


def test_a_running_job_with_gpus() -> None:
    job = running("1", "l4-small-a", gres={"l4-small-a": {"gpu:l4": 1}})
    view = observation(
        snapshot((), (job,), (node("l4-small-a", used=1),)), edge(worker("l4-small-a")), catalogue=WITH_GPUS, **PACKING
    )
    told = by_shape(explained("1", view))

    assert (told["l4-small"].verdict, told["l4-large"].verdict) == ("chosen", "costlier")
    assert told["h100-small"].lacks == ("gpus",)


@pytest.mark.parametrize(
    "view",
    [
        empty_cluster(group("1", reason="JobHeldUser", held=True)),
        empty_cluster(group("1", partition="other")),
        empty_cluster(group("1", count=0, job_ids=("1",))),
    ],
)
def test_jobs_that_the_planner_does_not_plan_for_have_no_alternatives(view: Observation) -> None:
    assert explained("1", view).alternatives == ()
