"""Templates that take long: they keep no other work of the gateway waiting."""

import asyncio
import threading
from typing import Any

import pytest
from clusterra_gateway.http.requests.errors import TooManyRequests
from clusterra_gateway.templates import authoring, rendering
from clusterra_gateway.templates.library import Found
from clusterra_gateway.templates.rendering import THREADS, Asker, Renderings, in_thread
from clusterra_lab.machine.process import until
from clusterra_templates.loading import load
from clusterra_templates.rendering import JobContext, Wanted
from template_definition import OWN

MANY = 40


ADA, BOB, EVE = Asker("acme", "ada"), Asker("acme", "bob"), Asker("rival", "eve")


@pytest.mark.parametrize("somebody", [EVE, BOB], ids=["of another tenant", "of the same tenant"])
async def test_what_a_person_has_waiting_does_not_wait_before_anybody_elses(somebody: Asker) -> None:
    begun, over = threading.Event(), threading.Event()
    ended = list[str]()

    def takes_long() -> None:
        begun.set()
        over.wait()

    async def one(asker: Asker) -> None:
        await in_thread(asker, takes_long)
        ended.append(asker.user)

    slow = [asyncio.create_task(one(ADA)) for _ in range(MANY)]
    await until(begun.is_set, seconds=90, what="the first of them")
    other = asyncio.create_task(one(somebody))
    left = asyncio.create_task(one(somebody))
    await asyncio.sleep(0)
    left.cancel()
    over.set()

    await asyncio.gather(*slow, other)

    # Not after all of them. Tasks end in another order than their threads.
    assert ended.index(somebody.user) < MANY // 2


async def test_a_person_has_a_bounded_number_of_them_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_WAITING", 5)
    over = threading.Event()
    slow = [asyncio.create_task(in_thread(ADA, over.wait)) for _ in range(THREADS + 5)]
    await asyncio.sleep(0)

    try:
        with pytest.raises(TooManyRequests):
            await in_thread(ADA, over.wait)
    finally:
        over.set()

    assert all(await asyncio.gather(*slow, in_thread(EVE, over.wait), in_thread(BOB, over.wait)))


@pytest.mark.parametrize("what", ["render", "load"])
async def test_other_work_finds_a_thread_beside_them(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    begun, over = threading.Event(), threading.Event()
    library: Any = None
    found, context = Found(load(OWN), "workspace"), JobContext("ada", "main", "r1")

    def takes_long(*_arguments: object, **_named: object) -> None:
        begun.set()
        over.wait()

    monkeypatch.setattr(rendering, "render", takes_long)
    monkeypatch.setattr(authoring, "load", takes_long)

    async def one() -> None:
        if what == "render":
            await Renderings(library).render("acme", found, Wanted(), context)
        else:
            await authoring._loaded(ADA, OWN)

    slow = [asyncio.create_task(one()) for _ in range(MANY)]
    try:
        await until(begun.is_set, seconds=90, what="the first of them")
        async with asyncio.timeout(90):
            done = await asyncio.to_thread(lambda: "done")
    finally:
        over.set()
        await asyncio.gather(*slow)

    assert done == "done"
