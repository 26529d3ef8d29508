"""Quotas and budgets are limits of a month: admins set and delete them, and others see their own."""

from typing import Any

import pytest
from aiohttp import ClientSession
from gateway_world import World


@pytest.fixture(params=["quotas", "budgets"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def set_limit(browser: ClientSession, kind: str, scope: str = "user/ada") -> int:
    async with browser.put(f"/v1/{kind}/{scope}", json={"limit": "250.00"}) as answer:
        return answer.status


async def names(browser: ClientSession, kind: str) -> set[str]:
    async with browser.get(f"/v1/{kind}") as answer:
        found: list[dict[str, Any]] = (await answer.json())[kind]
        return {each["name"] for each in found}


async def test_members_set_no_limit(world: World, kind: str) -> None:
    ada = await world.login("ada@acme.example")

    status = await set_limit(ada, kind)

    assert status == 403


async def test_admins_see_all_limits_and_others_their_own(world: World, kind: str) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    await set_limit(boss, kind)
    await set_limit(boss, kind, "account/physics")

    of_ada, of_all = await names(ada, kind), await names(boss, kind)

    assert of_ada == {"ada"}
    assert of_all == {"ada", "physics"}


async def test_a_limit_is_deleted_once(world: World, kind: str) -> None:
    boss = await world.login("boss@acme.example")
    await set_limit(boss, kind)

    statuses = [(await boss.delete(f"/v1/{kind}/user/ada")).status for _ in range(2)]

    assert statuses == [204, 404]
