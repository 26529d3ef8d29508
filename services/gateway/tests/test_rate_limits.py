"""A caller who asks too often is told when to ask again, and takes nothing from others."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import aiohttp
import pytest
from clusterra_gateway.http.requests.client_address import FORWARDED_FOR
from clusterra_gateway.identity.access import authentication, limits
from clusterra_gateway.settings import Settings
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from people_world import make_token

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


async def test_wrong_tokens_are_counted_by_the_network_they_come_from(
    settings: Settings, issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WRONG_PER_MINUTE", 5)
    behind_a_proxy = settings.model_copy(update={"trusted_proxies": (ip_network("127.0.0.0/8"),)})
    async with running(behind_a_proxy, issuer) as world:
        ada = await world.login("ada@acme.example")
        known, unknown = [str((await make_token(ada, name=name))["token"]) for name in ("known", "unknown")]
        program = await world.browser()

        async def status(token: str, address: str) -> int:
            headers = {"Authorization": f"Bearer {token}", FORWARDED_FOR: address}
            async with program.get("/v1/users/me", headers=headers) as answer:
                return answer.status

        assert await status(known, "2001:db8::1") == 200
        wrong = [await status(f"{known[:-4]}{number:04}", f"2001:db8::{number:x}") for number in range(10, 20)]
        elsewhere = await status(f"{known[:-4]}0000", "2001:db8:0:1::1")
        there, here = await status(known, "2001:db8::2"), await status(unknown, "2001:db8::2")
        unknown_elsewhere = await status(unknown, "198.51.100.7")

    assert (wrong[0], wrong[-1]) == (401, 429)
    assert (elsewhere, unknown_elsewhere) == (401, 200), "no counter is for all"
    assert (there, here) == (200, 429), "who shares the network and was valid goes on working"


async def test_logins_are_counted_by_the_network_they_come_from(
    settings: Settings, issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "SIGN_INS_PER_MINUTE", 5)
    behind_a_proxy = settings.model_copy(update={"trusted_proxies": (ip_network("127.0.0.0/8"),)})
    async with running(behind_a_proxy, issuer) as world:
        browser = await world.browser()

        async def status(address: str, path: str = "/v1/auth/callback", **wanted: str) -> int:
            headers = {FORWARDED_FOR: address}
            async with browser.get(path, params=wanted, headers=headers, allow_redirects=False) as answer:
                return answer.status

        assert await status("2001:db8::1", "/v1/auth/login") == 302
        wrong = [await status(f"2001:db8::{number:x}", code="wrong", state="wrong") for number in range(10)]
        domain = await status("2001:db8::1", "/v1/auth/login", domain="nowhere.example")
        elsewhere = await status("198.51.100.7", code="wrong", state="wrong")

    assert wrong == [401] * 5 + [429] * 5
    assert (domain, elsewhere) == (429, 401)
