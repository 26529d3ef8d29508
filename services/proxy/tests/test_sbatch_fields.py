"""The CPUs that a job needs in all, as sbatch counts them. `test_sbatch.py` compares such jobs with those of sbatch."""

from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_proxy.requests.sbatch_fields import NO_LIMIT, minimum_cpus, sbatch_fields
from clusterra_sbatch.applying import apply
from clusterra_sbatch.script_job import ScriptJob

NOW = datetime(2026, 11, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({}, 1),
        ({"cpus_per_task": 3}, 3),
        ({"tasks": 4}, 4),
        ({"nodes": "1", "tasks": 4, "cpus_per_task": 2}, 8),
        ({"minimum_nodes": 1, "maximum_nodes": 1, "tasks": 4, "cpus_per_task": 2}, 8),
        ({"nodes": "2"}, 2),
        ({"nodes": "2", "cpus_per_task": 3}, 6),
        ({"tasks_per_node": 3}, 3),
        ({"nodes": "2", "tasks_per_node": 3, "cpus_per_task": 2}, 12),
        ({"nodes": "2", "tasks_per_node": 3, "tasks": 5, "cpus_per_task": 2}, 10),
        ({"nodes": "0", "tasks_per_node": 3}, 0),
        ({"nodes": "0"}, 0),
        ({"nodes": "0", "cpus_per_task": 2}, 2),
    ],
)
def test_cpus_are_those_of_all_tasks(fields: dict[str, Any], cpus: int) -> None:
    assert minimum_cpus(job(**fields)) == cpus


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({"nodes": "2-4"}, 1),
        ({"nodes": "2-4", "tasks_per_node": 3, "cpus_per_task": 2}, 2),
        ({"nodes": "2-4", "tasks": 6, "cpus_per_task": 2}, 12),
        ({"nodes": "2,4", "cpus_per_task": 2}, 2),
    ],
)
def test_a_range_of_nodes_says_nothing_of_tasks(fields: dict[str, Any], cpus: int) -> None:
    assert minimum_cpus(job(**fields)) == cpus


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({}, 1),
        ({"nodes": "1"}, 1),
        ({"nodes": "2"}, 2),
        ({"nodes": "0"}, 1),
        ({"minimum_nodes": 3}, 3),
        ({"minimum_nodes": 3, "tasks_per_node": 2}, 1),
    ],
)
def test_with_overcommit_only_named_nodes_count(fields: dict[str, Any], cpus: int) -> None:
    assert minimum_cpus(job(tasks=5, cpus_per_task=2, overcommit=True, **fields)) == cpus


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({"minimum_cpus": 3, "tasks": 2, "cpus_per_task": 2}, 3),
        ({"maximum_cpus": 1, "tasks": 2}, None),
        ({"required_nodes": ["w1", "w2"], "cpus_per_task": 2}, None),
    ],
)
def test_what_sbatch_does_not_count_is_left_as_it_is(fields: dict[str, Any], cpus: int | None) -> None:
    assert minimum_cpus(job(**fields)) == cpus


@pytest.mark.parametrize(
    ("line", "asked"),
    [("--nodes=1 -n 4 -c 2", {}), ("--nodes=1", {"tasks": 4, "cpus_per_task": 2}), ("", {"nodes": "1", "tasks": 8})],
)
def test_a_script_and_a_request_have_the_same_count(line: str, asked: dict[str, Any]) -> None:
    described = JobDescription.model_validate({"environment": ("PATH=/bin",), **asked})

    fields = sbatch_fields(apply(f"#!/bin/sh\n#SBATCH {line}\n", described, now=NOW))

    assert fields["minimum_cpus"] == 8


def test_no_count_is_told_beyond_the_largest_number_of_slurm() -> None:
    described = JobDescription(environment=("PATH=/bin",), tasks=2**31, cpus_per_task=2)

    assert "minimum_cpus" not in sbatch_fields(apply("#!/bin/sh\n", described, now=NOW))


def test_no_time_limit_is_told() -> None:
    applied = apply("#!/bin/sh\n#SBATCH -t UNLIMITED\n", JobDescription(environment=("PATH=/bin",)), now=NOW)

    assert sbatch_fields(applied)["time_limit"] == NO_LIMIT


def job(**fields: Any) -> ScriptJob:
    """A job with these fields."""
    return ScriptJob.model_validate({"environment": ("PATH=/bin",), **fields})
