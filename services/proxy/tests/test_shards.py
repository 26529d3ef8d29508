import asyncio

import pytest
from clusterra_contracts.bus.subjects import SHARD_COUNT, job_shard
from clusterra_contracts.identity import ClusterRef
from clusterra_proxy.shards import Shards
from clusterra_runtime.nats.lease_terms import Lease

REF = ClusterRef(tenant="acme", cluster="c1")
LEASE = Lease(job_shard(REF), fence=1)
OTHER = Lease((job_shard(REF) + 1) % SHARD_COUNT, fence=1)


class Work:
    """Work that runs until it is cancelled, and takes a moment to end."""

    def __init__(self) -> None:
        self.runs = 0
        self.running = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        self.ended.clear()
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.running.clear()
            self.ended.set()


async def cancel_and_wait(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_runs_while_leading_and_ends_before_the_lease_is_released() -> None:
    shards, work = Shards(), Work()
    waiting = asyncio.create_task(shards.while_leading(REF, work.run))
    for number in (1, 2):
        assert not work.running.is_set()
        leading = asyncio.create_task(shards.lead(LEASE))
        async with asyncio.timeout(90):
            await work.running.wait()
        assert work.runs == number
        await cancel_and_wait(leading)
        assert work.ended.is_set()
    await cancel_and_wait(waiting)


async def test_another_shard_is_no_concern_of_a_cluster() -> None:
    shards, work = Shards(), Work()
    waiting = asyncio.create_task(shards.while_leading(REF, work.run))
    leading = [asyncio.create_task(shards.lead(lease)) for lease in (OTHER, LEASE)]
    async with asyncio.timeout(90):
        await work.running.wait()

    await cancel_and_wait(leading[0])
    assert (work.runs, work.running.is_set()) == (1, True)

    await cancel_and_wait(leading[1])
    assert work.ended.is_set()
    await cancel_and_wait(waiting)


async def test_a_failure_of_the_work_is_raised() -> None:
    shards = Shards()
    leading = asyncio.create_task(shards.lead(LEASE))

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await shards.while_leading(REF, fail)

    await cancel_and_wait(leading)


async def test_cancelled_work_ends_without_ending_the_lead_of_the_shard() -> None:
    shards, one, other = Shards(), Work(), Work()
    leading = asyncio.create_task(shards.lead(LEASE))
    tasks = [asyncio.create_task(shards.while_leading(REF, work.run)) for work in (one, other)]
    async with asyncio.timeout(90):
        await one.running.wait()
        await other.running.wait()
    await cancel_and_wait(tasks[0])

    assert one.ended.is_set()
    assert other.running.is_set()

    await cancel_and_wait(leading)
    assert other.ended.is_set()

    await cancel_and_wait(tasks[1])
