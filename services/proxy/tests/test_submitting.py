"""A user's submits take turns, and hold nobody else's."""

import asyncio

import pytest
from clusterra_proxy.cluster import user_turns as module
from clusterra_proxy.cluster.submitting import TURNS, Submitting
from clusterra_proxy.slurmrestd.errors import Unavailable

ADA, BOB = 20001, 20002


async def test_a_user_has_few_turns_and_others_have_theirs() -> None:
    submitting = Submitting()
    release = asyncio.Event()
    began: list[int] = []

    async def submit(uid: int) -> None:
        async with submitting.turn(uid):
            began.append(uid)
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        for uid in (*([ADA] * 5), BOB):
            tasks.create_task(submit(uid))
        await asyncio.sleep(0)
        assert began == [ADA] * TURNS + [BOB]
        release.set()

    assert sorted(began) == [ADA] * 5 + [BOB]


async def test_a_submit_that_gives_up_waiting_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    submitting = Submitting()
    async with submitting.turn(ADA), submitting.turn(ADA):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), submitting.turn(ADA):
                    pass


async def test_beyond_the_bound_a_submit_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 0)
    submitting = Submitting()
    async with submitting.turn(ADA), submitting.turn(ADA):
        with pytest.raises(Unavailable, match="2 submits of this user"):
            async with submitting.turn(ADA):
                pass
    async with submitting.turn(ADA):
        pass
