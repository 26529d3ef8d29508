import asyncio

import pytest
from clusterra_proxy.leader import Turn
from clusterra_runtime.nats.lease import Lease

LEASE = Lease(partition=0, fence=1)


class Work:
    """Something that runs until it is cancelled, and takes a moment to end."""

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


async def end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_runs_during_each_turn_and_has_ended_before_it_is_given_back() -> None:
    turn, work = Turn(), Work()
    following = asyncio.create_task(turn.during(work.run))
    for number in (1, 2):
        assert not work.running.is_set()
        holding = asyncio.create_task(turn.hold(LEASE))
        async with asyncio.timeout(30):
            await work.running.wait()
        assert work.runs == number
        await end(holding)
        assert work.ended.is_set()
    await end(following)


async def test_work_that_fails_fails_who_runs_it() -> None:
    turn = Turn()
    holding = asyncio.create_task(turn.hold(LEASE))

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await turn.during(fail)
    await end(holding)


async def test_work_that_is_not_wanted_any_more_ends_with_its_turn_unchanged() -> None:
    turn, one, other = Turn(), Work(), Work()
    holding = asyncio.create_task(turn.hold(LEASE))
    tasks = [asyncio.create_task(turn.during(work.run)) for work in (one, other)]
    async with asyncio.timeout(30):
        await one.running.wait()
        await other.running.wait()
    await end(tasks[0])
    assert one.ended.is_set()
    assert other.running.is_set()
    await end(holding)
    assert other.ended.is_set()
    await end(tasks[1])
