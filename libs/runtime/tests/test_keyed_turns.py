"""Each key has a few turns at a time, and a bounded number waiting."""

import asyncio

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime.keyed_turns import KeyedTurns, TooManyWait


async def test_a_key_has_its_turns_and_holds_up_no_other() -> None:
    turns, begun, go = KeyedTurns[str](2, 1), list[str](), asyncio.Event()

    async def work(key: str) -> None:
        async with turns.turn(key):
            begun.append(key)
            await go.wait()

    async with asyncio.TaskGroup() as tasks:
        for key in ("acme", "acme", "acme", "rival"):
            tasks.create_task(work(key))
        await until(lambda: "rival" in begun, seconds=60, what="the turn of the other key")
        with pytest.raises(TooManyWait):
            await work("acme")

        assert begun == ["acme", "acme", "rival"]

        go.set()

    assert begun.count("acme") == 3


async def test_who_gives_up_waiting_leaves_their_place() -> None:
    turns = KeyedTurns[str](1, 1)
    async with turns.turn("acme"):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), turns.turn("acme"):
                    pass
    async with turns.turn("acme"):
        pass
