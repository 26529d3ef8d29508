"""Turns: one piece of work in each iteration of the event loop, in order."""

import asyncio
from itertools import pairwise

import pytest
from clusterra_runtime.turns import Turns

WORKERS = 200


async def test_other_tasks_go_on_between_two_turns() -> None:
    turns = Turns()
    history: list[int | str] = []

    async def other() -> None:
        while True:
            history.append("other")
            await asyncio.sleep(0)

    async def work(number: int) -> None:
        await turns.take()
        history.append(number)

    async with asyncio.TaskGroup() as tasks:
        beside = tasks.create_task(other())
        await asyncio.gather(*(work(number) for number in range(WORKERS)))
        beside.cancel()

    assert [each for each in history if each != "other"] == list(range(WORKERS))
    assert all("other" in two for two in pairwise(history))


async def test_whoever_takes_turns_again_and_again_waits_for_the_others() -> None:
    turns = Turns()
    taken: list[str] = []

    async def greedy() -> None:
        while len(taken) < 2 * WORKERS:
            await turns.take()
            taken.append("greedy")

    async def modest() -> None:
        await turns.take()
        taken.append("modest")

    await asyncio.gather(greedy(), *(modest() for _ in range(WORKERS)))

    assert taken[: WORKERS + 1].count("modest") == WORKERS


async def test_a_cancelled_wait_takes_no_turn_and_stops_nobody() -> None:
    turns = Turns()
    first = asyncio.create_task(turns.take())
    second = asyncio.create_task(turns.take())
    third = asyncio.create_task(turns.take())
    await asyncio.sleep(0)

    second.cancel()
    async with asyncio.timeout(90):
        await asyncio.gather(first, third)
        await turns.take()

    with pytest.raises(asyncio.CancelledError):
        await second
