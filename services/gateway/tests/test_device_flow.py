"""The device flow (RFC 8628): a program on a machine without a browser gets a token that a person approves."""

import asyncio
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from clusterra_gateway.accounts.keyspace import ACCOUNTS, device_flow_key
from clusterra_gateway.http.requests.client_address import FORWARDED_FOR
from clusterra_gateway.http.requests.parameters import FORM
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.tokens.token_records import MAX_TOKENS
from clusterra_gateway.program_sign_in.device_flows import LETTERS, MAX_ATTEMPTS
from clusterra_gateway.program_sign_in.device_routes import BEGUN_PER_ADDRESS
from clusterra_gateway.settings import Settings
from clusterra_runtime.store.store import Update
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from people_world import bearer, change, make_token, me, owner, replica, status_with
from program_sign_in import CLIENT, begin, decide, poll, text_of


async def age(world: World, device_code: str, seconds: int) -> None:
    """Makes a sign-in end so many seconds ago."""
    ended = datetime.now(UTC) - timedelta(seconds=seconds)
    key = device_flow_key(secret_hash(device_code))
    await world.store.write(Update(ACCOUNTS, key, set={"valid_until": ended.isoformat()}))


async def test_a_program_is_told_where_the_person_answers_and_waits(world: World) -> None:
    program = await world.browser()

    begun = await begin(program, scope="jobs:read profile", token_seconds="7200")
    polled = await poll(program, begun["device_code"])

    assert begun["verification_uri"] == f"{world.settings.public_url}/v1/auth/device"
    assert (begun["expires_in"], begun["interval"]) == (600, 5)
    pending = {"error": "authorization_pending", "error_description": "the person has not answered yet"}
    assert polled == (400, pending)


async def test_the_person_is_asked_for_what_the_program_wants(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program, scope="jobs:read profile", token_seconds="7200")

    async with browser.get(begun["verification_uri_complete"]) as answer:
        asked = text_of(await answer.text())

    for expected in ("login-7", begun["user_code"], "ada@acme.example", "acme", "jobs:read", "2:00:00"):
        assert expected in asked
    assert "jobs:write" not in asked


async def test_an_approved_program_gets_a_token_with_what_it_asked_for(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program, scope="jobs:read profile", token_seconds="7200")

    decided, _ = await decide(browser, begun["user_code"], "approve")
    status, given = await poll(program, begun["device_code"])
    async with browser.get("/v1/users/me/tokens") as answer:
        (token,) = (await answer.json())["tokens"]

    assert (decided, status) == (200, 200)
    assert given == {
        "access_token": given["access_token"],
        "token_type": "Bearer",
        "expires_in": 7200,
        "scope": "profile jobs:read",
    }
    assert (token["name"], token["scopes"]) == ("login-7", ["profile", "jobs:read"])


async def test_the_token_of_a_program_allows_no_more_than_its_scopes(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program, scope="jobs:read profile")
    await decide(browser, begun["user_code"], "approve")
    _, given = await poll(program, begun["device_code"])

    statuses = [await status_with(program, given["access_token"], path) for path in ("/v1/users/me", "/v1/clusters")]

    assert statuses == [200, 403]


async def test_a_device_code_gives_one_token(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program)
    await decide(browser, begun["user_code"], "approve")
    first, _ = await poll(program, begun["device_code"])

    status, again = await poll(program, begun["device_code"])

    assert first == 200
    assert (status, again["error"]) == (400, "invalid_grant")


async def test_a_program_that_asks_for_no_scope_cannot_manage_members(world: World) -> None:
    program, boss = await world.browser(), await world.login("boss@acme.example")
    begun = await begin(program)
    await decide(boss, begun["user_code"], "approve")

    _, given = await poll(program, begun["device_code"])

    assert given["scope"] == "profile clusters:read jobs:read jobs:write events:read"
    assert await status_with(program, given["access_token"], "/v1/members") == 403


async def test_of_many_polls_at_once_on_two_replicas_one_gets_the_token(world: World) -> None:
    browser = await world.login("ada@acme.example")
    async with replica(world) as other, aiohttp.ClientSession(other) as second:
        first = await world.browser()
        begun = await begin(first)
        await decide(browser, begun["user_code"], "approve")

        answers = await asyncio.gather(*(poll(each, begun["device_code"]) for each in (first, second) * 8))

    assert Counter(status for status, _ in answers) == {200: 1, 400: 15}
    assert {told["error"] for status, told in answers if status == 400} == {"invalid_grant"}
    async with browser.get("/v1/users/me/tokens") as answer:
        assert (await answer.json())["total"] == 1


async def test_a_denied_program_gets_no_token(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program)

    assert (await decide(browser, begun["user_code"], "deny"))[0] == 200

    assert (await poll(program, begun["device_code"]))[1]["error"] == "access_denied"
    assert (await decide(browser, begun["user_code"], "approve"))[0] == 404
    assert (await poll(program, begun["device_code"]))[1]["error"] == "access_denied"


async def test_the_first_of_two_answers_counts(world: World) -> None:
    program = await world.browser()
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")
    begun = await begin(program)

    answers = await asyncio.gather(
        *(decide(each, begun["user_code"], word) for each in (ada, bob) for word in ("approve", "deny"))
    )

    assert [status for status, _ in answers].count(200) == 1
    assert {status for status, _ in answers} <= {200, 404, 409}


async def test_a_program_that_polls_too_fast_is_slowed_down(world: World) -> None:
    program = await world.browser()
    begun = await begin(program)

    told = [(await poll(program, begun["device_code"]))[1] for _ in range(3)]

    assert [each["error"] for each in told] == ["authorization_pending", "slow_down", "slow_down"]
    assert told[1]["error_description"] == "wait for 10 seconds between two polls"
    await decide(await world.login("ada@acme.example"), begun["user_code"], "approve")
    assert (await poll(program, begun["device_code"]))[0] == 200


@pytest.mark.parametrize("approved", [True, False])
async def test_codes_expire(world: World, approved: bool) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program)
    if approved:
        assert (await decide(browser, begun["user_code"], "approve"))[0] == 200

    await age(world, begun["device_code"], 1)

    assert (await poll(program, begun["device_code"]))[1]["error"] == "expired_token"
    assert (await decide(browser, begun["user_code"], "approve"))[0] == 404


async def test_no_code_is_stored(world: World) -> None:
    begun = await begin(await world.browser())

    stored = repr(world.store._tables)

    assert begun["device_code"] not in stored
    assert begun["user_code"] not in stored
    assert begun["user_code"].replace("-", "") not in stored


async def test_a_code_may_be_entered_in_any_spelling_and_needs_no_script(world: World) -> None:
    browser = await world.login("ada@acme.example")
    begun = await begin(await world.browser())
    letters = begun["user_code"].replace("-", "")
    assert len(letters) == 8
    assert set(letters) <= set(LETTERS)

    async with browser.get("/v1/auth/device") as answer:
        page, policy = await answer.text(), answer.headers["Content-Security-Policy"]

    assert "<script" not in page
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Referrer-Policy"] == "same-origin"
    for spelling in (letters.lower(), f" {letters[:4]} {letters[4:]} ", begun["user_code"]):
        status, asked = await decide(browser, spelling, "look")
        assert status == 200
        assert "login-7" in asked


async def test_codes_cannot_be_guessed(world: World) -> None:
    browser, begun = await world.login("ada@acme.example"), await begin(await world.browser())
    for _ in range(MAX_ATTEMPTS // 2):
        assert (await decide(browser, "BBBB-BBBB", "approve"))[0] == 404
        async with browser.get("/v1/auth/device", params={"user_code": "BBBB-BBBC"}) as answer:
            assert answer.status == 404

    assert (await decide(browser, begun["user_code"], "approve"))[0] == 429

    async with replica(world) as other, aiohttp.ClientSession(other, cookie_jar=browser.cookie_jar) as elsewhere:
        assert (await decide(elsewhere, begun["user_code"], "approve"))[0] == 429
    assert (await decide(await world.login("bob@acme.example"), begun["user_code"], "look"))[0] == 200


async def test_only_a_person_in_a_browser_of_our_own_page_can_approve(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    begun = await begin(program, scope="profile")
    of_a_token = bearer((await make_token(browser))["token"])

    evil = await decide(browser, begun["user_code"], "approve", Origin="https://evil.example")
    leaked = await decide(program, begun["user_code"], "approve", **of_a_token)
    stranger = await decide(program, begun["user_code"], "approve")

    assert [status for status, _ in (evil, leaked, stranger)] == [403, 403, 401]
    assert (await poll(program, begun["device_code"]))[1]["error"] == "authorization_pending"


async def test_who_has_not_signed_in_does_so_first_and_then_sees_the_page(world: World) -> None:
    browser, begun = await world.browser(), await begin(await world.browser())

    async with browser.get(begun["verification_uri_complete"], allow_redirects=False) as answer:
        assert answer.status == 303
        login = answer.headers["Location"]
    async with browser.get(login, allow_redirects=False) as answer:
        authorize = f"{answer.headers['Location']}&login_hint=ada%40acme.example"
    async with browser.get(authorize) as answer:
        asked = text_of(await answer.text())

    assert str(answer.url) == begun["verification_uri_complete"]
    assert begun["user_code"] in asked


async def test_what_a_program_says_of_itself_is_text(world: World) -> None:
    program = await world.browser()

    for machine in ("<b>x</b>", 'a" onload="', "a\u202eb", "x" * 65, "-x"):
        async with program.post("/v1/auth/device", data={"client_id": CLIENT, "machine": machine}) as answer:
            assert (answer.status, (await answer.json())["error"]) == (400, "invalid_request"), machine


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"client_id": "other"}, "invalid_client"),
        ({}, "invalid_client"),
        ({"client_id": CLIENT, "scope": "jobs:read everything"}, "invalid_scope"),
        ({"client_id": CLIENT, "token_seconds": "99999999"}, "invalid_request"),
    ],
)
async def test_a_wrong_request_has_the_error_of_oauth(world: World, fields: dict[str, str], error: str) -> None:
    program = await world.browser()

    async with program.post("/v1/auth/device", data={"unknown": "ignored", **fields}) as answer:
        told = await answer.json()

    assert (answer.status, told["error"]) == (400, error)
    assert set(told) == {"error", "error_description"}


async def test_a_wrong_poll_has_the_error_of_oauth(world: World) -> None:
    program = await world.browser()
    wrong: dict[str, dict[str, str]] = {
        "invalid_grant": {"device_code": "unknown"},
        "unsupported_grant_type": {"device_code": "x", "grant_type": "password"},
        "invalid_client": {"device_code": "x", "client_id": "other"},
    }

    told = {error: (await poll(program, **fields))[1]["error"] for error, fields in wrong.items()}

    assert told == {error: error for error in wrong}


async def test_a_poll_that_cannot_be_read_has_the_error_of_oauth(world: World) -> None:
    program = await world.browser()
    asked: tuple[dict[str, Any], ...] = (
        {"json": {"client_id": CLIENT}},
        {"data": b"client_id=x&client_id=x", "headers": {"Content-Type": FORM}},
        {"data": {"x": "y" * 20_000}},
    )

    told = []
    for request in asked:
        async with program.post("/v1/auth/device/token", **request) as answer:
            told.append((answer.status, (await answer.json())["error"]))

    assert told == [(415, "invalid_request"), (400, "invalid_request"), (413, "invalid_request")]


async def test_a_member_who_was_disabled_meanwhile_gives_no_token(world: World) -> None:
    program, chief, ada = await world.browser(), await owner(world), await world.login("ada@acme.example")
    begun = await begin(program)
    await decide(ada, begun["user_code"], "approve")

    assert await change(chief, (await me(ada))["id"], disabled=True) == 200

    assert (await poll(program, begun["device_code"]))[1]["error"] == "access_denied"


async def test_a_person_with_the_most_tokens_is_told_so_before_they_approve(world: World) -> None:
    program, browser = await world.browser(), await world.login("ada@acme.example")
    for number in range(MAX_TOKENS):
        async with browser.post("/v1/users/me/tokens", json={"name": f"t{number}"}) as answer:
            made = await answer.json()
    begun = await begin(program)

    assert (await decide(browser, begun["user_code"], "approve"))[0] == 409

    async with browser.delete(f"/v1/users/me/tokens/{made['id']}") as answer:
        assert answer.status == 204
    assert (await decide(browser, begun["user_code"], "approve"))[0] == 200
    assert (await poll(program, begun["device_code"]))[0] == 200


async def test_an_address_cannot_begin_without_end(world: World) -> None:
    program = await world.browser()
    statuses = list[int]()

    while 429 not in statuses and len(statuses) < 3 * BEGUN_PER_ADDRESS:
        async with program.post("/v1/auth/device", data={"client_id": CLIENT}) as answer:
            statuses.append(answer.status)
            last, retry_after = await answer.json(), answer.headers.get("Retry-After", "0")

    assert len(statuses) > BEGUN_PER_ADDRESS
    assert (statuses[-1], last["error"]) == (429, "slow_down")
    assert int(retry_after) >= 1


@pytest.mark.parametrize(("proxies", "refused"), [(("127.0.0.0/8",), False), ((), True)])
async def test_behind_a_trusted_proxy_each_client_has_its_own_limit(
    settings: Settings, issuer: IssuerStandIn, proxies: tuple[str, ...], refused: bool
) -> None:
    trusted = settings.model_copy(update={"trusted_proxies": tuple(map(ip_network, proxies))})
    async with running(trusted, issuer) as world:
        program = await world.browser()

        async def begun_by(client: str) -> int:
            # The first address is the client's own word.
            headers = {FORWARDED_FOR: f"192.0.2.{secrets.randbelow(256)}, {client}"}
            async with program.post("/v1/auth/device", data={"client_id": CLIENT}, headers=headers) as answer:
                return answer.status

        # In the sliding window a request is allowed again every half second.
        assert 429 in [await begun_by("203.0.113.7") for _ in range(BEGUN_PER_ADDRESS + 20)]
        others = [await begun_by(f"198.51.100.{number}") for number in range(20)]

        assert (429 in others) == refused
