"""What a job will cost: its dominant share of the cheapest shape that could run it."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from clusterra_contracts.demand import Need
from clusterra_contracts.gres import Gres
from clusterra_contracts.job_price import JobPrices, usd_per_hour
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.shapes import Catalogue, Shape

HOUR = 3600.0
SMALL = Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=0.1)
LARGE = Shape(name="compute-small", family="compute", size="small", vcpu=8, memory_gib=16, usd_per_hour=0.8)
GPU = Shape(
    name="l4-small", family="l4", size="small", vcpu=4, memory_gib=16, usd_per_hour=0.9, gpu_count=1, gpu_model="l4"
)
CATALOGUE = Catalogue(shapes=(SMALL, LARGE, GPU))


def job(**asked: Any) -> PendingJobs:
    return PendingJobs.model_validate(
        {
            "job_ids": ("1",),
            "count": 1,
            "partition": "main",
            "uid": 1,
            "reason": "",
            "first_submitted_at": datetime(2026, 11, 1, tzinfo=UTC),
            "time_limit_seconds": HOUR,
            **asked,
        }
    )


@pytest.mark.parametrize(
    ("asked", "tasks", "micro_usd"),
    [
        ({"cpus": 1}, 1, 50_000),
        ({"cpus": 1}, 10, 500_000),
        ({"cpus": 1, "memory_per_node_mib": 4096}, 1, 100_000),
        ({"cpus": 1, "memory_per_node_mib": 0}, 1, 100_000),
        ({"cpus": 1, "exclusive": True}, 1, 100_000),
        ({"cpus": 1, "features": "compute-small"}, 1, 100_000),
        ({"cpus": 2, "nodes": 2, "features": "[compute-xs*1&compute-small*1]"}, 1, 150_000),
        ({"cpus": 1, "features": "infiniband"}, 1, 50_000),  # a feature of others' nodes: as if it had none
        ({"cpus": 1, "features": "compute-xs&"}, 1, 50_000),
        ({"cpus": 4}, 1, 400_000),  # does not fit on the small one
        ({"cpus": 4, "nodes": 2}, 1, 200_000),
        ({"cpus": 6, "cpus_per_task": 2, "tasks": 3, "nodes": 2}, 1, 800_000),  # two tasks on one of them
        ({"cpus": 16, "tasks": 16}, 1, 1_600_000),  # on two nodes
        ({"cpus": 32}, 1, 1_600_000),  # fits on none: as if it could be divided, at the best price
        ({"cpus": 1, "gres": "node/gpu=1"}, 1, 900_000),
        ({"cpus": 2, "tasks": 2, "nodes": 2, "gres": "task/gpu:l4=1"}, 1, 1_800_000),
        ({"cpus": 2, "nodes": 2, "gres": "job/gpu=2"}, 1, 1_800_000),
        ({"cpus": 1, "gres": "node/gpu=3"}, 1, 2_700_000),
        ({"cpus": 1, "gres": "node/shard=3"}, 1, 50_000),
        ({"cpus": 1, "gres": "node/gpu:h100=1"}, 1, None),
        ({"cpus": 1, "gres": "gpu=1"}, 1, None),
        ({"cpus": 1, "time_limit_seconds": None}, 1, None),
    ],
)
def test_the_projected_cost_is_the_share_of_the_cheapest_shape(
    asked: dict[str, Any], tasks: int, micro_usd: int | None
) -> None:
    assert JobPrices(CATALOGUE).micro_usd(job(**asked), tasks) == micro_usd


def test_components_cost_their_sum_and_nothing_is_known_where_one_has_no_price() -> None:
    prices = JobPrices(CATALOGUE)

    assert prices.micro_usd_together([(job(cpus=1), 2), (job(cpus=4), 1)]) == 500_000
    assert prices.micro_usd_together([(job(cpus=1), 2), (job(cpus=4, time_limit_seconds=None), 1)]) is None


@pytest.mark.parametrize(
    ("need", "with_memory", "share"),
    [
        (Need(1, 1024), True, Fraction(1, 4)),
        (Need(1, 8192), True, Fraction(1, 2)),
        (Need(1, 8192), False, Fraction(1, 4)),
        (Need(1, 1024, gres=(Gres("gpu:l4", 1),)), True, Fraction(1)),
        (Need(1, 1024, exclusive=True), True, Fraction(1)),
        (Need(8, 1024, exclusive=True), True, Fraction(2)),
    ],
)
def test_a_share_is_the_largest_part_of_a_worker(need: Need, with_memory: bool, share: Fraction) -> None:
    assert usd_per_hour(need, GPU, with_memory=with_memory) == share * Fraction(9, 10)
