"""What a table that is read page by page holds while its client has not read on: the text, and no records."""

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from clusterra_contracts.events import AdminFact, event_of
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.costs import CostRow
from clusterra_gateway.bus.requests import HistoryRequests, LedgerRequests, SlurmRequests
from clusterra_gateway.events import audit
from gateway_world import World

PAGES = 5


def counted(monkeypatch: pytest.MonkeyPatch, requests: type, name: str) -> list[int]:
    """How many of the pages that were read there still are, whenever the gateway reads the next one."""
    read: Callable[..., Awaitable[Any]] = getattr(requests, name)
    pages: list[weakref.ref[Any]] = []
    found: list[int] = []

    async def counting(*asked: Any) -> Any:
        gc.collect()
        found.append(sum(each() is not None for each in pages))
        page = await read(*asked)
        pages.append(weakref.ref(page))
        return page

    monkeypatch.setattr(requests, name, counting)
    return found


async def test_an_export_of_events_holds_no_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PAGE_EVENTS", 2)
    fact = AdminFact(kind="member.changed", actor="boss", subject="ada")
    events = [event_of("gateway", world.acme.ref, fact, version=str(each), time=now()) for each in range(2 * PAGES)]
    world.acme.events.archived[:] = events
    boss = await world.login("boss@acme.example")
    pages = counted(monkeypatch, HistoryRequests, "history")

    async with boss.get("/v1/clusters/main/audit?format=csv") as answer:
        lines = (await answer.text()).splitlines()

    assert (len(lines), pages) == (1 + 2 * PAGES, [0] * PAGES)


async def test_a_table_of_costs_holds_no_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.acme.events.costs[:] = [CostRow(purpose="idle", micro_usd=7, seconds=60)] * (2 * PAGES)
    boss = await world.login("boss@acme.example")
    pages = counted(monkeypatch, LedgerRequests, "costs")

    async with boss.get("/v1/clusters/main/costs?format=csv") as answer:
        lines = (await answer.text()).splitlines()

    assert (len(lines), pages) == (1 + 2 * PAGES, [0] * PAGES)


async def test_a_list_of_slurmrestd_holds_the_part_that_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(PAGES):
        world.acme.add_job(str(number + 1))
    boss = await world.login("boss@acme.example")
    parts = counted(monkeypatch, SlurmRequests, "rest_list")

    async with boss.get("/v1/clusters/main/slurm/v0.0.45/jobs/") as answer:
        listed = (await answer.json())["jobs"]

    assert (len(listed), parts) == (PAGES, [0] + [1] * (PAGES - 1))
