"""A caller who asks too often is told when to ask again, and takes nothing from others."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from clusterra_gateway.settings import Settings
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn

READS = 20
CHANGES = 5


@pytest.fixture
async def strict(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    """A gateway that admits few requests."""
    limits = {"reads_per_minute": READS, "changes_per_minute": CHANGES}
    async with running(settings.model_copy(update=limits), issuer) as world:
        yield world


async def limited(browser: aiohttp.ClientSession) -> aiohttp.ClientResponse:
    """Reads until the gateway refuses, and returns this answer."""
    for _ in range(3 * READS):
        async with browser.get("/v1/users/me") as answer:
            if answer.status == 429:
                await answer.read()
                return answer
            assert answer.status == 200
    raise AssertionError("the gateway never refused")


async def test_each_answer_says_how_many_requests_are_left(strict: World) -> None:
    ada = await strict.login("ada@acme.example")

    async with ada.get("/v1/users/me") as answer:
        limit, left = answer.headers["RateLimit-Limit"], int(answer.headers["RateLimit-Remaining"])

    assert limit == str(READS)
    assert 0 < left < READS


async def test_a_caller_who_has_read_too_often_is_told_when_to_read_again(strict: World) -> None:
    ada = await strict.login("ada@acme.example")

    refused = await limited(ada)

    assert (await refused.json())["type"] == "/v1/problems/too-many-requests"
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60


async def test_a_caller_who_has_read_too_often_can_still_cancel(strict: World) -> None:
    ada = await strict.login("ada@acme.example")
    await limited(ada)

    async with ada.delete("/v1/clusters/main/jobs/7") as answer:
        status = answer.status

    assert status == 404, "there is no such job, and the request was admitted"


async def test_a_caller_who_has_read_too_often_takes_nothing_from_others(strict: World) -> None:
    ada, bob = await strict.login("ada@acme.example"), await strict.login("bob@acme.example")
    await limited(ada)

    async with bob.get("/v1/users/me") as others, ada.get("/v1/openapi.json") as public:
        statuses = (others.status, public.status)

    assert statuses == (200, 200)


async def test_changes_are_limited_apart_from_reads(strict: World) -> None:
    ada = await strict.login("ada@acme.example")
    answers = []
    for _ in range(2 * CHANGES):
        async with ada.post("/v1/clusters/main/jobs/submit", json={}) as answer:
            answers.append(answer.status)
    async with ada.get("/v1/users/me") as answer:
        assert answer.status == 200

    assert answers[:CHANGES] == [400] * CHANGES
    assert answers[-1] == 429
