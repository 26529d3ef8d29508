"""Warm room on real Slurm: the price of waiting decides whether a job waits for a new worker beside free CPUs."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SECONDS = 60.0
POLICY = ScalingPolicy(idle_seconds=2.0)
"""The policy of the shared lab."""
WAITING_IS_FREE = POLICY.model_copy(update={"wait_usd_per_hour": 0.0})
WAITING_IS_DEAR = POLICY.model_copy(update={"wait_usd_per_hour": 1e7})
"""A worker of the lab boots within a second, so that a wait costs hundreds of dollars."""
LONG = "#!/bin/sh\n#SBATCH -c 2 --mem-per-cpu=1G --time=6-00\nsleep 600\n"
"""Such a job would keep a big worker for days."""
BIG = "#!/bin/sh\n#SBATCH -c 28 --mem-per-cpu=1G --time=10\nsleep 600\n"


@pytest.fixture
async def submitted(lab: Stack, ada: User) -> AsyncIterator[list[str]]:
    """Waiting is free. A list for the ids of jobs, which are cancelled at the end."""
    job_ids: list[str] = []
    await lab.set_policy(WAITING_IS_FREE)
    try:
        yield job_ids
    finally:
        for job_id in job_ids:
            await ada.cancel(job_id)
        await lab.set_policy(POLICY)


async def test_a_dear_wait_opens_a_worker_with_room(lab: Stack, ada: User, submitted: list[str]) -> None:
    async def submit(script: str) -> str:
        submitted.append((await ada.submit(script, {})).job_id)
        return submitted[-1]

    async def node_of(job_id: str) -> str:
        shown = await lab.slurm.run("squeue", "--noheader", "--jobs", job_id, "--states=RUNNING", "--format=%N")
        return shown.stdout.strip()

    async def running_on_a_node(job_id: str) -> str:
        async def runs() -> bool:
            return bool(await node_of(job_id))

        await until(runs, seconds=SECONDS, every=0.1, what=f"job {job_id} on a node")
        return await node_of(job_id)

    async def is_open(node: str) -> bool:
        return f"Extra={OPEN}\n" in (await lab.slurm.run("scontrol", "show", "node", node)).stdout

    async def is_closed(node: str) -> bool:
        return not await is_open(node)

    # The class of a running job counts, so that the worker is closed before the next such job comes.
    await running_on_a_node(await submit(LONG))
    big = await running_on_a_node(await submit(BIG))
    await until(lambda: is_closed(big), seconds=SECONDS, every=0.1, what="a worker closed to long jobs")

    while_free = await running_on_a_node(await submit(LONG))
    await lab.set_policy(WAITING_IS_DEAR)
    await until(lambda: is_open(big), seconds=SECONDS, every=0.1, what="an open worker")
    while_dear = await running_on_a_node(await submit(LONG))

    assert while_free != big
    assert while_dear == big
