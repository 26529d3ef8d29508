"""A machine goes with all that runs on it: Slurm queues its job again, does not hold it, and it ends on another one."""

import os
import re
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack, stack
from lost_machines import lose_workers

SCRIPT = """#!/bin/bash
echo "began on $SLURMD_NODENAME"
[ "$SLURM_RESTART_COUNT" ] || sleep 600
echo ended
"""


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """One of its own: what is lost here leaves a node's record and events, and Slurm need not wait for as long."""
    if os.geteuid() != 0:
        pytest.skip("the lab's Slurm runs jobs as several users: it needs root")
    policy, settings = ScalingPolicy(idle_seconds=2.0), ("SlurmdTimeout=10",)
    async with stack(tmp_path_factory.mktemp("lab"), policy=policy, settings=settings) as running:
        yield running


async def test_a_job_is_queued_again_and_ends_on_another_worker(lab: Stack, ada: User, observer: Observer) -> None:
    job = {"name": "loss", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
    submitted = await ada.submit(SCRIPT, job, key="worker-loss")
    output = lab.slurm.shared_dir / f"job_{submitted.job_id}.out"

    async def shown() -> dict[str, str]:
        told = (await lab.slurm.run("scontrol", "show", "job", submitted.job_id)).stdout
        return dict(re.findall(r"(\w+)=(\S*)", told))

    async def first_run() -> str | None:
        return (await shown())["BatchHost"] if output.exists() and output.read_text() else None

    lost = await until(first_run, seconds=120, every=0.2, what="the job to run")
    lose_workers(lab)

    async def requeued() -> dict[str, str] | None:
        record = await shown()
        return record if record["Restarts"] == "1" else None

    waiting = await until(requeued, seconds=120, every=0.2, what="Slurm to queue the job again")
    assert waiting["Priority"] != "0", "it is held"

    async def done() -> dict[str, str] | None:
        record = await shown()
        return record if record["JobState"] == "COMPLETED" else None

    ended = await until(done, seconds=180, every=0.5, what="the job to end on another worker")
    assert ended["BatchHost"] != lost
    await until(lambda: observer.workers == {}, seconds=120, what="the workers to go")
