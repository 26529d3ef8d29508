"""API tokens: how many a member may have, also when many are made at the same moment."""

import asyncio

import aiohttp
from clusterra_gateway.identity.tokens.token_records import MAX_TOKENS
from gateway_world import World


async def make(browser: aiohttp.ClientSession) -> int:
    async with browser.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
        return answer.status


async def test_tokens_that_are_made_at_once_never_exceed_the_limit(world: World) -> None:
    ada = await world.login("ada@acme.example")
    first = [await make(ada) for _ in range(MAX_TOKENS - 3)]

    at_once = await asyncio.gather(*(make(ada) for _ in range(8)))

    assert set(first) == {201}
    assert sorted(at_once) == [201] * 3 + [409] * 5
    async with ada.get("/v1/users/me/tokens") as answer:
        assert (await answer.json())["total"] == MAX_TOKENS
