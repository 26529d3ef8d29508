"""The sweeper on the event loop: rounds, wakes, time limits and failures."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from clusterra_contracts.identity import TenantRef
from clusterra_lab.machine.process import until
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished

OFTEN = Pace(0.01, visit_seconds=30, wake_seconds=0.0)


class Away(Exception):
    """A service did not answer."""


class Visits:
    """Counts visits to tenants, and does what the test says at each."""

    def __init__(self, *tenants: str) -> None:
        self.tenants = list(tenants)
        self.seen = Counter[str]()
        self.acts: dict[str, Callable[[], Awaitable[None]]] = {}
        self.lists = 0

    async def listed(self) -> list[str]:
        self.lists += 1
        if "unlisted" in self.acts:
            await self.acts["unlisted"]()
        return self.tenants

    async def visit(self, tenant: str) -> None:
        self.seen[tenant] += 1
        if tenant in self.acts:
            await self.acts[tenant]()

    async def have_reached(self, tenant: str, visits: int) -> None:
        await until(lambda: self.seen[tenant] >= visits, seconds=30, what=f"visits to {tenant}", every=0.001)

    def sweep(self, woken: asyncio.Event | None = None) -> Sweep[str]:
        return Sweep("test", self.listed, self.visit, Place, (Away,), woken or asyncio.Event())


@asynccontextmanager
async def running(sweeper: Sweeper[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(sweeper.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def readable_place(tenant: str) -> Place:
    return Place(TenantRef(tenant=tenant).tenant)


async def test_a_key_whose_place_cannot_be_read_stops_no_other() -> None:
    visits = Visits("not a tenant!", "acme")
    sweep = replace(visits.sweep(), place=readable_place)

    async with running(Sweeper(sweep, OFTEN, Bounds(at_once=4))) as task:
        await visits.have_reached("acme", 2)
        ended = task.done()

    assert not ended
    assert visits.seen.keys() == {"acme"}


async def hang() -> None:
    await asyncio.Event().wait()


def raising(error: Exception) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [Away("no answer"), Unfinished(), KeyError("a fault of ours"), TimeoutError()])
async def test_a_visit_that_fails_stops_no_other_and_is_tried_again(error: Exception) -> None:
    visits = Visits("bad", "good")
    visits.acts["bad"] = raising(error)

    async with running(Sweeper(visits.sweep(), OFTEN, Bounds(1))):
        await visits.have_reached("good", 3)
        await visits.have_reached("bad", 3)


async def test_a_visit_that_takes_too_long_is_cancelled() -> None:
    visits = Visits("hangs")
    visits.acts["hangs"] = hang

    async with running(Sweeper(visits.sweep(), Pace(0.01, visit_seconds=0.01), Bounds(1))):
        await visits.have_reached("hangs", 3)


async def test_those_that_do_not_answer_hold_up_no_other() -> None:
    silent = [f"t{number}" for number in range(20)]
    visits, hold = Visits(*silent), asyncio.Event()

    async def silence() -> None:
        if hold.is_set():
            await hang()
        raise Away

    visits.acts.update(dict.fromkeys(silent, silence))
    async with running(Sweeper(visits.sweep(), OFTEN, Bounds(4))):
        for tenant in silent:
            await visits.have_reached(tenant, 1)
        hold.set()
        visits.tenants.append("well")
        await visits.have_reached("well", 3)


async def test_a_list_that_cannot_be_read_now_is_read_in_the_next_round() -> None:
    visits = Visits("acme")
    visits.acts["unlisted"] = raising(Away())

    async with running(Sweeper(visits.sweep(), OFTEN, Bounds(1))):
        await until(lambda: visits.lists >= 3, seconds=30, what="rounds", every=0.001)
        del visits.acts["unlisted"]
        await visits.have_reached("acme", 1)


async def test_a_fault_of_the_list_ends_the_sweeper() -> None:
    visits = Visits("acme")
    visits.acts["unlisted"] = raising(KeyError("fault"))

    with pytest.raises(ExceptionGroup) as raised:
        await Sweeper(visits.sweep(), OFTEN, Bounds(1)).run()

    assert raised.group_contains(KeyError)


async def test_an_event_begins_a_round_early_and_a_visit_under_way_is_repeated() -> None:
    visits, woken, answer = Visits("acme"), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        await answer.wait()

    visits.acts["acme"] = slow
    pace = Pace(3600, visit_seconds=30, wake_seconds=0.0)
    async with running(Sweeper(visits.sweep(woken), pace, Bounds(1))):
        woken.set()
        await visits.have_reached("acme", 1)
        woken.set()
        await until(lambda: visits.lists >= 2, seconds=30, what="a second round", every=0.001)
        answer.set()
        await visits.have_reached("acme", 2)


async def test_once_visits_each_place_once_and_waits_for_all() -> None:
    visits = Visits(*(f"t{number}" for number in range(10)))

    await Sweeper(visits.sweep(), Pace(3600), Bounds(2)).once()

    assert set(visits.seen.values()) == {1}
    assert len(visits.seen) == 10
