"""Admission over HTTP: a job that no shape fits is rejected with the limit, any other is accepted without a worker."""

from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import Stack

MOST_MEMORY = "240799 (memory-xlarge)"


async def rejection(user: User, script: str, job: dict[str, Any]) -> dict[str, Any]:
    """Submit a job that must be rejected, and return the problem document."""
    body = {"script": f"#!/bin/sh\n{script}\n", "job": {"environment": ["PATH=/bin"], **job}}
    async with user.session.post(f"/v1/clusters/{user.cluster}/jobs/submit", json=body) as response:
        problem: dict[str, Any] = await response.json()
        assert (response.status, response.content_type) == (422, "application/problem+json"), problem
        return problem


@pytest.mark.parametrize(
    ("script", "job", "words"),
    [
        ("", {"cpus_per_task": 33}, "33 CPUs on each node, but the largest worker without GPUs has 32"),
        ("#SBATCH --cpus-per-task=33", {}, "33 CPUs on each node, but the largest worker without GPUs has 32"),
        ("#SBATCH -n 66 -N 2", {}, "33 CPUs on each node"),
        ("#SBATCH -C compute-xs -c 3", {}, "among those with compute-xs has 2 (compute-xs)"),
        ("", {"memory_per_node": 300_000}, MOST_MEMORY),
        ("#SBATCH --mem=300G", {}, MOST_MEMORY),
        ("#SBATCH -N 101", {}, "101 nodes, but the cluster may have 100 workers"),
        ("#SBATCH --constraint=quantum", {}, "no worker has the feature quantum"),
        ("#SBATCH --constraint=quantum|compute&nowhere", {}, "Invalid feature"),
        ("#SBATCH --gres=gpu:h100:2", {}, "2 gres/gpu:h100 on each node"),
        ("#SBATCH --gpus=5 -N 1", {}, "5 gres/gpu on each node, but the largest worker has 4 (l4-large)"),
        ("#SBATCH --gres=gpu:l4:1 -c 49", {}, "49 CPUs on each node, but the largest worker has 48 (l4-large)"),
        ("#SBATCH --gres=license:1", {}, "gres/license"),
    ],
    ids=str,
)
async def test_a_job_that_no_shape_fits_is_rejected_with_the_limit(
    ada: User, script: str, job: dict[str, Any], words: str
) -> None:
    problem = await rejection(ada, script, job)
    assert words in problem["detail"], problem
    assert problem["hint"], problem


@pytest.mark.parametrize(
    "options",
    [
        "-c 32 --mem=200G -C memory",
        "-N 3 -C general-large",
        "-N 100 -C compute --mem=1G",
        "-N 100",
        "--gres=gpu:a10g:4 -c 48",
        "-c 48 -C l4",
    ],
)
async def test_a_job_that_a_shape_fits_is_accepted_without_a_worker(ada: User, options: str) -> None:
    job = await ada.submit(f"#!/bin/sh\n#SBATCH {options}\n", {"hold": True, "name": "admitted"})
    await ada.cancel(job.job_id)


@pytest.mark.parametrize(
    "options", [("--nodes=101",), ("--cpus-per-task=49",), ("--mem=300G",), ("--constraint=quantum",)], ids=" ".join
)
async def test_sbatch_rejects_jobs_that_no_shape_fits(lab: Stack, options: tuple[str, ...]) -> None:
    with pytest.raises(CommandFailed):
        await lab.slurm.sbatch(SlurmUser(name="ada", uid=7001, gid=7001), "#!/bin/sh\ntrue\n", *options)
