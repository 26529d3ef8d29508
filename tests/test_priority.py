"""Slurm's priority at a bound: what the fleet may have goes to the job that Slurm would start first."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SECONDS = 60.0
POLICY = ScalingPolicy(idle_seconds=2.0)
"""The lab's own."""


@pytest.fixture
async def one_worker(lab: Stack, observer: Observer) -> AsyncIterator[Observer]:
    """The cluster may have no more, and has none yet."""
    await lab.set_policy(POLICY.model_copy(update={"max_workers": 1}))
    try:
        await until(lambda: observer.workers == {}, seconds=SECONDS, what="the fleet to be empty")
        observer.workers_peak.clear()
        yield observer
    finally:
        await lab.set_policy(POLICY)


async def test_the_only_worker_is_bought_for_the_job_of_the_highest_priority(
    lab: Stack, ada: User, one_worker: Observer
) -> None:
    async def update(*what: str) -> None:
        changed = await lab.slurm.run("scontrol", "update", *what)
        assert changed.returncode == 0, changed.stderr

    # Both are looked at in the same moment, and each takes all CPUs of the largest worker.
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

    await until(done, seconds=SECONDS, every=0.1, what="both jobs to end")
    # The older one finds room there, too; a worker of its own would have been of the family `compute`.
    assert one_worker.workers_peak == {"memory-xlarge": 1}
