"""Templates that take long: they keep no other work of the gateway waiting."""

import asyncio
import threading
from typing import Any

import pytest
from clusterra_gateway.templates import authoring, rendering
from clusterra_gateway.templates.library import Found
from clusterra_gateway.templates.rendering import Renderings
from clusterra_lab.machine.process import until
from clusterra_templates.loading import load
from clusterra_templates.rendering import JobContext, Wanted
from template_definition import OWN

MANY = 40


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
            await authoring._loaded(OWN)

    slow = [asyncio.create_task(one()) for _ in range(MANY)]
    try:
        await until(begun.is_set, seconds=90, what="the first of them")
        async with asyncio.timeout(30):
            done = await asyncio.to_thread(lambda: "done")
    finally:
        over.set()
        await asyncio.gather(*slow)

    assert done == "done"
