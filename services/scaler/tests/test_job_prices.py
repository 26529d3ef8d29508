"""Estimates, purchases and quotas name one demand and one price."""

from math import ceil
from typing import Any

import pytest
from clusterra_contracts.demand import Need
from clusterra_contracts.gres import gpu_count
from clusterra_contracts.job_price import JobPrices, requests_memory
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import EstimateJob
from clusterra_contracts.shape_fit import new_workers
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_scaler.explain.estimate import estimate
from clusterra_scaler.planner.requests.demand import demand_of
from estimate_examples import inputs_of
from fleet_examples import WITH_GPUS, group, observation, snapshot
from hypothesis import given
from hypothesis import strategies as st

HOUR = 3600.0
MICRO_USD = 1_000_000
POLICIES = st.sampled_from(("family", "packing"))
MEMORY: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"memory_per_node_mib": 0},
        {"memory_per_node_mib": 1000},
        {"memory_per_node_mib": 40_000},
        {"memory_per_cpu_mib": 1024},
        {"memory_per_cpu_mib": 7000},
        {"memory_per_gpu_mib": 5000},
    )
)
GRES = st.sampled_from(
    (
        "",
        "",
        "node/gpu=1",
        "node/gpu:h100=2",
        "task/gpu=1",
        "task/gpu:l4=1",
        "job/gpu=5",
        "job/gpu:h100=9",
        "node/shard=1",
    )
)


@st.composite
def jobs(draw: st.DrawFn) -> PendingJobs:
    tasks, cpus_per_task = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    nodes = draw(st.integers(1, 4))
    return group(
        cpus=max(tasks * cpus_per_task, nodes),
        cpus_per_task=cpus_per_task,
        cpus_per_node=draw(st.sampled_from((1, 1, 5))),
        tasks=tasks,
        nodes=nodes,
        max_nodes=draw(st.sampled_from((None, nodes, nodes + 3))),
        gres=draw(GRES),
        features=draw(st.sampled_from(("", "", "general", "compute|memory", "h100"))),
        exclusive=draw(st.sampled_from((False, False, True))),
        time_limit_seconds=HOUR,
        **{"memory_per_node_mib": None} | draw(MEMORY),
    )


def share(need: Need, shape: Shape, *, with_memory: bool) -> float:
    """The documented share, by other code."""
    by_memory = need.memory_mib / shape.worker.memory_mib if with_memory else 0.0
    by_gpu = gpu_count(need.gres) / shape.gpu_count if shape.gpu_count else 0.0
    return max(need.cpus / shape.vcpu, by_memory, by_gpu, 1.0 if need.exclusive else 0.0)


@given(jobs())
def test_a_quota_prices_the_demand_that_the_planner_buys_for_on_the_cheapest_shape_that_fits(job: PendingJobs) -> None:
    demand = demand_of((job,), new_workers(WITH_GPUS))

    quota = JobPrices(WITH_GPUS).micro_usd(job, 1)

    expected = 0.0
    for part in demand.parts:
        fitting = [shape for shape in WITH_GPUS.shapes if new_workers(Catalogue(shapes=(shape,)), WITH_GPUS)(part.need)]
        if not fitting:  # priced as if it could be divided, or not at all
            return
        expected += part.nodes * min(
            shape.usd_per_hour * share(part.need, shape, with_memory=requests_memory(job)) for shape in fitting
        )
    assert quota == pytest.approx(expected * MICRO_USD, abs=1.001)


@given(jobs(), POLICIES)
def test_a_job_alone_costs_by_its_quota_no_more_than_by_its_estimate(job: PendingJobs, policy: str) -> None:
    view = observation(snapshot(), catalogue=WITH_GPUS, name=policy, max_workers=100)
    answer = estimate(EstimateJob(job=job), inputs_of(view), view.now)

    quota = JobPrices(WITH_GPUS).micro_usd(job, 1)

    if answer.usd_per_hour is not None:
        assert quota is not None
        assert quota <= ceil(answer.usd_per_hour * MICRO_USD + 0.001)


@given(jobs(), st.sampled_from(WITH_GPUS.shapes), POLICIES)
def test_where_one_shape_is_for_sale_estimate_and_quota_name_its_price(
    job: PendingJobs, shape: Shape, policy: str
) -> None:
    only = Catalogue(shapes=(shape,))
    view = observation(snapshot(), catalogue=only, name=policy, max_workers=100)
    answer = estimate(EstimateJob(job=job), inputs_of(view), view.now)

    quota = JobPrices(only).micro_usd(job, 1)

    if answer.usd_per_hour is not None:
        assert {worker.shape for worker in answer.workers} == {shape.name}
        assert quota == pytest.approx(answer.usd_per_hour * MICRO_USD, abs=1.001)
