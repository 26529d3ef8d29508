"""Sign-in by the browser: a program on the person's own machine gets its token with a code and PKCE."""

import asyncio
import base64
import re
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import unescape
from typing import Any

import aiohttp
import pytest
from clusterra_gateway.accounts.keyspace import ACCOUNTS, authorization_code_key
from clusterra_gateway.accounts.roles import PROGRAM_SCOPES
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_runtime.store.store import Update
from gateway_world import World
from people_world import bearer, change, make_token, me, owner, replica, status_with
from program_sign_in import CLIENT, text_of
from yarl import URL

BACK = "http://127.0.0.1:45123/callback"

type Json = dict[str, Any]


def pkce() -> tuple[str, str]:
    """A code verifier and its challenge."""
    verifier = secrets.token_urlsafe(32)
    return verifier, base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")


def request_of(challenge: str, **fields: str) -> dict[str, str]:
    asked = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": BACK,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": "s-1 &=",
        "machine": "ada-laptop",
        **fields,
    }
    return {name: value for name, value in asked.items() if value}


async def asked(browser: aiohttp.ClientSession, request: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    """Opens the page. Returns its status, its text, and the hidden fields of its form."""
    async with browser.get("/v1/auth/authorize", params=request, allow_redirects=False) as answer:
        page = await answer.text()
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return answer.status, text_of(page), {name: unescape(value) for name, value in hidden}


async def decide(browser: aiohttp.ClientSession, form: dict[str, str], decision: str, **headers: str) -> URL | int:
    """Answers the page. Returns where it leads, or the status of a page that leads nowhere."""
    data = form | {"decision": decision}
    async with browser.post("/v1/auth/authorize/consent", data=data, headers=headers, allow_redirects=False) as answer:
        return URL(answer.headers["Location"]) if answer.status == 303 else answer.status


async def code_of(browser: aiohttp.ClientSession, challenge: str, **fields: str) -> str:
    """The code that the browser brings to the program."""
    led_to = await decide(browser, request_of(challenge, **fields), "approve")
    assert isinstance(led_to, URL)
    return led_to.query["code"]


async def redeem(program: aiohttp.ClientSession, code: str, verifier: str, **fields: str) -> tuple[int, Json]:
    asked = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "client_id": CLIENT,
        "code_verifier": verifier,
        **fields,
    }
    async with program.post("/v1/auth/token", data=asked) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.status, await answer.json()


@pytest.mark.parametrize("back", [BACK, "http://[::1]:8400", "http://127.0.0.1:1/"])
async def test_an_approved_program_gets_a_token_with_what_it_asked_for(world: World, back: str) -> None:
    program, browser, (verifier, challenge) = await world.browser(), await world.login("ada@acme.example"), pkce()
    request = request_of(challenge, redirect_uri=back, scope="jobs:read profile", token_seconds="7200")

    status, page, form = await asked(browser, request)

    assert status == 200
    for expected in ("ada-laptop", "ada@acme.example", "acme", "jobs:read", "2:00:00", back):
        assert expected in page
    led_to = await decide(browser, form, "approve")
    assert isinstance(led_to, URL)
    assert str(led_to).startswith(back)
    assert (led_to.query["state"], led_to.query["iss"]) == ("s-1 &=", world.settings.public_url)

    status, given = await redeem(program, led_to.query["code"], verifier, redirect_uri=back)
    assert (status, given["token_type"], given["expires_in"]) == (200, "Bearer", 7200)
    assert given["scope"] == "profile jobs:read"
    assert await status_with(program, given["access_token"]) == 200
    async with browser.get("/v1/users/me/tokens") as answer:
        (token,) = (await answer.json())["tokens"]
    assert (token["name"], token["scopes"]) == ("ada-laptop", ["profile", "jobs:read"])


async def test_the_page_says_what_each_scope_allows(world: World) -> None:
    ada = await world.login("ada@acme.example")

    status, text, _ = await asked(ada, request_of(pkce()[1], scope=" ".join(PROGRAM_SCOPES)))

    assert status == 200, text
    assert [scope for scope in PROGRAM_SCOPES if f"( {scope} )" not in text] == []


async def test_a_denied_program_is_told_so(world: World) -> None:
    browser = await world.login("ada@acme.example")

    led_to = await decide(browser, request_of(pkce()[1]), "deny")

    assert isinstance(led_to, URL)
    assert dict(led_to.query) == {"error": "access_denied", "state": "s-1 &=", "iss": world.settings.public_url}


@pytest.mark.parametrize(
    "back",
    [
        *("https://evil.example/", "http://evil.example:80/", "http://localhost:45123/", "http://127.0.0.1/"),
        *("http://127.0.0.1:0/", "http://127.0.0.1:65536/", "http://127.0.0.1:80@evil.example/", "http://127.1:80/"),
        *("http://127.0.0.1:80/#f", "http://127.0.0.1:80/?a=b", "http://127.0.0.1:80\\@evil.example/", "javascript:x"),
        *("http://127.0.0.1:80/\r\nSet-Cookie: a=b", "http://127.0.0.1.evil.example:80/", "http://[::2]:80/", ""),
    ],
)
async def test_a_browser_is_sent_nowhere_but_to_its_own_machine(world: World, back: str) -> None:
    browser, request = await world.login("ada@acme.example"), request_of(pkce()[1], redirect_uri=back)

    assert (await asked(browser, request))[0] == 400
    assert await decide(browser, request, "approve") == 400
    assert await decide(browser, request, "deny") == 400


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"scope": "everything"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"machine": "<b>"}, "invalid_request"),
    ],
)
async def test_a_program_is_told_that_its_request_is_wrong(world: World, fields: dict[str, str], error: str) -> None:
    browser, request = await world.login("ada@acme.example"), request_of(pkce()[1], **fields)

    async with browser.get("/v1/auth/authorize", params=request, allow_redirects=False) as answer:
        led_to = URL(answer.headers["Location"])

    assert str(led_to).startswith(BACK)
    assert (led_to.query["error"], led_to.query["state"]) == (error, "s-1 &=")
    assert await decide(browser, request, "approve") == 400


async def test_a_code_is_of_use_to_its_own_program_alone(world: World) -> None:
    program, browser, (verifier, challenge) = await world.browser(), await world.login("ada@acme.example"), pkce()
    code = await code_of(browser, challenge)
    assert code not in repr(world.store._tables)

    for wrong in (
        await redeem(program, code, pkce()[0]),
        await redeem(program, code, challenge),
        await redeem(program, code, verifier, redirect_uri="http://127.0.0.1:45124/callback"),
        await redeem(program, code[:-1] + ("A" if code[-1] != "A" else "B"), verifier),
    ):
        assert (wrong[0], wrong[1]["error"]) == (400, "invalid_grant")
    assert (await redeem(program, code, verifier, client_id="other"))[1]["error"] == "invalid_client"
    assert (await redeem(program, code, verifier, grant_type="password"))[1]["error"] == "unsupported_grant_type"

    assert (await redeem(program, code, verifier))[0] == 200


async def test_of_many_at_once_on_two_replicas_one_gets_a_token(world: World) -> None:
    browser, (verifier, challenge) = await world.login("ada@acme.example"), pkce()
    code = await code_of(browser, challenge)
    async with replica(world) as other, aiohttp.ClientSession(other) as second:
        first = await world.browser()

        answers = await asyncio.gather(*(redeem(each, code, verifier) for each in (first, second) * 8))

    assert Counter(status for status, _ in answers)[200] == 1
    assert {told["error"] for status, told in answers if status == 400} == {"invalid_grant"}


async def test_the_token_of_a_code_that_is_redeemed_twice_is_revoked(world: World) -> None:
    program, browser, (verifier, challenge) = await world.browser(), await world.login("ada@acme.example"), pkce()
    code = await code_of(browser, challenge)
    _, given = await redeem(program, code, verifier)
    assert await status_with(program, given["access_token"]) == 200

    assert (await redeem(program, code, pkce()[0]))[0] == 400
    assert await status_with(program, given["access_token"]) == 200
    assert (await redeem(program, code, verifier))[1]["error"] == "invalid_grant"

    assert await status_with(program, given["access_token"]) == 401


async def test_a_code_expires(world: World) -> None:
    program, browser, (verifier, challenge) = await world.browser(), await world.login("ada@acme.example"), pkce()
    code = await code_of(browser, challenge)
    ended = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    await world.store.write(Update(ACCOUNTS, authorization_code_key(secret_hash(code)), set={"valid_until": ended}))

    assert (await redeem(program, code, verifier))[1]["error"] == "invalid_grant"


async def test_a_member_who_was_disabled_meanwhile_gives_no_token(world: World) -> None:
    program, chief, ada = await world.browser(), await owner(world), await world.login("ada@acme.example")
    verifier, challenge = pkce()
    code = await code_of(ada, challenge)

    assert await change(chief, (await me(ada))["id"], disabled=True) == 200

    assert (await redeem(program, code, verifier))[1]["error"] == "access_denied"


async def test_only_a_person_on_our_own_page_can_approve(world: World) -> None:
    browser, request = await world.login("ada@acme.example"), request_of(pkce()[1])
    of_a_token = bearer((await make_token(browser))["token"])

    assert await decide(browser, request, "approve", Origin="https://evil.example") == 403
    assert await decide(await world.browser(), request, "approve", **of_a_token) == 403
    assert await decide(await world.browser(), request, "approve") == 401


async def test_the_form_may_lead_to_the_program_and_nowhere_else(world: World) -> None:
    browser = await world.login("ada@acme.example")

    policies = {}
    for back in (BACK, "http://[::1]:45123/"):
        request = request_of(pkce()[1], redirect_uri=back)
        async with browser.get("/v1/auth/authorize", params=request) as answer:
            policies[back] = answer.headers["Content-Security-Policy"].partition("form-action ")[2]

    assert policies == {BACK: "'self' http://127.0.0.1:45123", "http://[::1]:45123/": "'self' http:"}


async def test_who_has_not_signed_in_does_so_first_and_then_sees_the_page(world: World) -> None:
    browser, request = await world.browser(), request_of(pkce()[1], scope="jobs:read profile")

    async with browser.get("/v1/auth/authorize", params=request, allow_redirects=False) as answer:
        assert answer.status == 303
        login = answer.headers["Location"]
    async with browser.get(URL(login, encoded=True), allow_redirects=False) as answer:
        assert answer.status == 302, await answer.text()
        authorize = f"{answer.headers['Location']}&login_hint=ada%40acme.example"
    async with browser.get(authorize) as answer:
        page = text_of(await answer.text())

    assert dict(answer.url.query) == request
    assert "ada-laptop" in page


async def test_who_was_signed_out_meanwhile_comes_back_to_the_same_question(world: World) -> None:
    stranger, browser = await world.browser(), await world.login("ada@acme.example")
    request = request_of(pkce()[1], scope="jobs:read profile")
    _, asked_before, form = await asked(browser, request)

    data = form | {"decision": "approve"}
    async with stranger.post("/v1/auth/authorize/consent", data=data, allow_redirects=False) as answer:
        assert answer.status == 401
        (link,) = re.findall(r'<a href="([^"]+)">', await answer.text())
    back_to = URL(unescape(link), encoded=True).query["return_to"]

    async with browser.get(URL(back_to, encoded=True)) as answer:
        assert text_of(await answer.text()) == asked_before
