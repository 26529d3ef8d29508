"""Limits of jobs, without Slurm."""

from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_proxy.admission.job_limits import PerGpu, check, per_node_demand
from clusterra_proxy.slurmrestd.errors import Rejected

MAX_WORKERS = 10
SHAPES = (
    Shape(name="compute-large", family="compute", size="large", vcpu=32, memory_gib=64, usd_per_hour=1),
    Shape(name="memory-small", family="memory", size="small", vcpu=4, memory_gib=128, usd_per_hour=1),
    Shape.model_validate(
        {
            "name": "h100-medium",
            "family": "h100",
            "size": "medium",
            "vcpu": 48,
            "memory_gib": 512,
            "usd_per_hour": 20,
            "gpu_model": "h100",
            "gpu_count": 4,
        }
    ),
)
BINDING = ClusterBinding(
    name="c1",
    slurmrestd_url="http://127.0.0.1:1",
    jwt_key="file:/nowhere",
    operator=SlurmUser(name="operator", uid=2001, gid=2001),
    catalogue=Catalogue(shapes=SHAPES),
    policy=ScalingPolicy(max_workers=MAX_WORKERS),
)


def describe(**fields: Any) -> JobDescription:
    return JobDescription.model_validate({"environment": ("PATH=/bin",), **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"cpus_per_task": 32},
        {"tasks": 320},
        {"tasks": 64, "nodes": "2"},
        {"tasks": 64, "nodes": "1-2"},
        {"nodes": "10", "tasks_per_node": 32},
        {"nodes": "1-100"},
        {"memory_per_node": 128 * 1024},
        {"memory_per_cpu": 2048, "cpus_per_task": 32},
        {"memory_per_node": 128 * 1024, "cpus_per_task": 4},
        {"tres_per_node": "gres/gpu:4"},
        {"tres_per_node": "gres/gpu:h100:4", "cpus_per_task": 48},
        {"constraints": "h100", "cpus_per_task": 48, "memory_per_node": 512 * 1024},
        {"constraints": "h100|h100-medium", "cpus_per_task": 48},
        {"tres_per_task": "gres/gpu=1", "tasks": 40},
        {"tres_per_job": "gres/gpu:h100:40"},
        {"constraints": "memory&memory-small"},
        {"constraints": "compute|nothing"},
        {"constraints": "[compute|memory]", "nodes": "2"},
        {"required_nodes": ("w1",)},
    ],
    ids=str,
)
def test_a_job_that_fits_a_shape_passes(fields: dict[str, Any]) -> None:
    check(BINDING, describe(**fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cpus_per_task": 33}, "33 CPUs on each node, but the largest worker without GPUs has 32 (compute-large)"),
        ({"tasks": 321}, "33 CPUs"),
        ({"tasks": 65, "nodes": "2"}, "33 CPUs"),
        ({"minimum_cpus": 1000}, "100 CPUs"),
        ({"nodes": "2", "tasks_per_node": 33}, "33 CPUs"),
        ({"nodes": "11"}, "11 nodes, but the cluster may have 10 workers"),
        ({"nodes": "1k"}, "1024 nodes"),
        ({"nodes": "12-20:4"}, "12 nodes"),
        ({"minimum_nodes": 11}, "11 nodes"),
        ({"tasks": 11, "tasks_per_node": 1}, "11 nodes"),
        ({"memory_per_node": 128 * 1024 + 1}, "131072 (memory-small)"),
        ({"memory_per_cpu": 8192, "cpus_per_task": 32}, "262144 MiB of memory"),
        ({"memory_per_node": 128 * 1024, "cpus_per_task": 5}, "no shape without GPUs has all of that at once"),
        ({"tres_per_node": "gres/gpu:5"}, "5 gres/gpu on each node, but the largest worker has 4 (h100-medium)"),
        ({"tres_per_node": "gres/gpu:a100:1"}, "has 0"),
        ({"tres_per_task": "gres/gpu:h100=3", "tasks": 2, "nodes": "1"}, "6 gres/gpu:h100"),
        ({"tres_per_job": "gres/gpu:41"}, "5 gres/gpu"),
        ({"tres_per_node": "gres/gpu:1", "cpus_per_task": 49}, "49 CPUs on each node, but the largest worker has 48"),
        (
            {"tres_per_node": "gres/gpu:1", "constraints": "memory"},
            "1 gres/gpu on each node, but the largest worker among",
        ),
        ({"constraints": "memory", "cpus_per_task": 5}, "among those with memory has 4 (memory-small)"),
        ({"constraints": "memory&compute"}, "all the features compute, memory"),
        ({"constraints": "nothing"}, "no worker has the feature nothing"),
        ({"required_nodes": ("placeholder-x-1",)}, "placeholder"),
    ],
    ids=str,
)
def test_a_job_that_fits_no_shape_is_rejected_with_the_limit(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(Rejected) as rejected:
        check(BINDING, describe(**fields))
    assert text in rejected.value.error.detail
    assert rejected.value.error.hint


def test_what_a_job_requests_for_each_gpu_counts_on_its_node() -> None:
    job = describe(tres_per_node="gres/gpu:h100:4", cpus_per_task=2)
    per_gpu = PerGpu.parse("gres/gpu:13", "gres/gpu:1024")

    demand = per_node_demand(job, MAX_WORKERS, per_gpu)

    assert (demand.cpus, demand.memory_mib) == (52, 4096)
    with pytest.raises(Rejected, match="52 CPUs"):
        check(BINDING, job, per_gpu)


def test_without_a_number_of_nodes_a_job_is_spread_over_all_workers() -> None:
    assert per_node_demand(describe(tasks=100), MAX_WORKERS).cpus == 10
    assert per_node_demand(describe(tasks=100, maximum_nodes=4), MAX_WORKERS).cpus == 25
