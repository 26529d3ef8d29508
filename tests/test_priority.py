"""Slurm's priority at a limit of workers: the worker is bought for the job that Slurm would start first."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SECONDS = 60.0
POLICY = ScalingPolicy(idle_seconds=2.0)
"""The policy of the shared lab."""


@pytest.fixture
async def one_worker(lab: Stack, observer: Observer) -> AsyncIterator[Observer]:
    """Limit the cluster to one worker, starting with none."""
    await lab.set_policy(POLICY.model_copy(update={"max_workers": 1}))
    try:
        await until(lambda: observer.workers == {}, seconds=SECONDS, what="an empty fleet")
        observer.workers_peak.clear()
        yield observer
    finally:
        await lab.set_policy(POLICY)


async def test_the_only_worker_is_bought_for_the_job_with_the_highest_priority(
    lab: Stack, ada: User, one_worker: Observer
) -> None:
    async def update(*what: str) -> None:
        changed = await lab.slurm.run("scontrol", "update", *what)
        assert changed.returncode == 0, changed.stderr

    # The partition is down meanwhile, so that both jobs are considered together. Each needs all CPUs of the largest
    # worker.
    await update("PartitionName=main", "State=DOWN")
    try:
        older, higher = [
            (await ada.submit(f"#!/bin/sh\n#SBATCH -c 32 --mem-per-cpu={gib}G\n", {})).job_id for gib in (1, 7)
        ]
        await update(f"JobId={older}", "Priority=1000")
        await update(f"JobId={higher}", "Priority=2000")
    finally:
        await update("PartitionName=main", "State=UP")

    def done() -> bool:
        return all(one_worker.states.get(job_id) == "COMPLETED" for job_id in (older, higher))

    await until(done, seconds=SECONDS, every=0.1, what="the end of both jobs")
    # The older job fits on that worker, too; a separate worker would have been of the family `compute`.
    assert one_worker.workers_peak == {"memory-xlarge": 1}
