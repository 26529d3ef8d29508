"""The record of a job, as the API shows it and as a queue snapshot does, asks for the same: one price for both."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from clusterra_contracts.job_price import JobPrices
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_proxy.requests.view import job_view
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.snapshot import pending_group
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job

CATALOGUE = Catalogue(
    shapes=(
        Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=0.1),
        Shape(name="compute-small", family="compute", size="small", vcpu=8, memory_gib=16, usd_per_hour=0.8),
        Shape(
            name="h100-xlarge",
            family="h100",
            size="xlarge",
            vcpu=192,
            memory_gib=2048,
            usd_per_hour=24.0,
            gpu_count=8,
            gpu_model="h100",
        ),
    )
)
ASKED: dict[str, st.SearchStrategy[Any]] = {
    "cpus": st.sampled_from([1, 4, 12]),
    "cpus_per_task": st.sampled_from([None, 1, 4]),
    "minimum_cpus_per_node": st.sampled_from([None, 1, 3]),
    "tasks": st.sampled_from([None, 1, 3]),
    "node_count": st.sampled_from([1, 2]),
    "max_nodes": st.sampled_from([None, 0, 3]),
    "memory_per_node": st.sampled_from([None, 0, 3000]),
    "memory_per_cpu": st.sampled_from([None, 0, 3000]),
    "memory_per_tres": st.sampled_from(["", "gres/gpu:4096"]),
    "tres_req_str": st.sampled_from(["", "cpu=4,node=3"]),
    "tres_per_node": st.sampled_from(["", "gres/gpu:1", "gres/gpu:h100:2"]),
    "tres_per_job": st.sampled_from(["", "gres/gpu:h100=3"]),
    "features": st.sampled_from(["", "h100-xlarge", "compute-small", "nowhere"]),
    "shared": st.sampled_from([(), ("none",), ("topo",), ("user",)]),
    "time_limit": st.sampled_from([None, 1, 60]),
}
CLUSTER: Any = SimpleNamespace(jobs=SimpleNamespace(waiting_tasks=lambda _record: ()), owner_name=lambda _record: "ada")


def prices(record: JobRecord) -> tuple[int | None, int | None]:
    """The price by the API's view of a job, and by the queue's."""
    shown = job_view(CLUSTER, record)
    assert shown is not None
    queued = pending_group([record], lambda _record: (), Counter(), at(0))
    known = JobPrices(CATALOGUE)
    return known.micro_usd(shown.request, 1), known.micro_usd(queued, 1)


@given(st.fixed_dictionaries(ASKED))
def test_a_job_has_one_price_as_the_api_shows_it_and_as_the_planner_sees_it(asked: dict[str, Any]) -> None:
    shown, queued = prices(job(**asked))

    assert shown == queued


@pytest.mark.parametrize(
    "asked", [{"shared": ("none",)}, {"memory_per_node": 0}], ids=["alone on its node", "all memory of its node"]
)
def test_a_job_that_takes_a_whole_worker_costs_the_whole_worker(asked: dict[str, Any]) -> None:
    shown, _ = prices(job(features="h100-xlarge", time_limit=60, **asked))

    assert shown == 24_000_000
