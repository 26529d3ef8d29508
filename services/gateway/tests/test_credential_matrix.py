"""Every route of the router, crossed with every kind of credential that must not open it."""

import base64
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from clusterra_gateway.identity.access.authentication import COOKIE, HOST_COOKIE, SESSION
from clusterra_gateway.identity.access.cookies import LOGIN
from clusterra_gateway.identity.access.private_route import OperatorRoute, PrivateRoute
from clusterra_gateway.identity.access.signed_tokens import Claims, SigningKeys
from clusterra_gateway.program_sign_in.oauth_routes import PageRoute
from gateway_world import World
from joserfc.jwk import KeySet, OctKey
from people_world import cookie_of, make_token, me
from route_table import example_path, route_table
from shared_link_world import LINKS, made_link, opened, owner_of_a_job

OPEN = {
    *("auth_login", "auth_login_invited", "auth_callback", "auth_callback_redirect"),
    *("auth_callback_of_issuer", "auth_issuers"),
    *("device_begin", "device_token", "auth_token", "oauth_metadata"),
    *("problem_types", "problem_type", "api_routes", "openapi", "api_page", "api_page_file"),
    *("console_page", "console_file"),
}
"""The routes that anybody may call."""
OF_AGENTS = {"agent_heartbeat", "hook_event", "hook_batch"}
"""The routes that take an agent's key in place of a person's credential: `test_agent_heartbeat.py`, `test_hooks.py`."""
OF_LINKS = {"shared_job_get", "shared_job_output", "shared_job_script"}
"""The routes that take the token of a shared link, and no other: `test_shared_link_attacks.py`."""
PAGES = {"device_page", "device_consent", "authorize_page", "authorize_consent", "sessions_open"}
"""The pages for people, which send everybody without a session to sign in first."""
SECRET = "only-for-ada"

type Credential = Callable[[World], Awaitable[str]]


def signed_with(world: World) -> SigningKeys:
    return SigningKeys.load(world.settings.session_key_file)


async def claims(world: World, seconds: int = 3600) -> Claims:
    """What a session of Ada says, who is a member and has signed in."""
    ada, now = await me(await world.login("ada@acme.example")), int(time.time())
    return Claims(sub=ada["id"], jti="1" * 32, iat=now, exp=now + seconds)


async def session_of(world: World, email: str) -> tuple[aiohttp.ClientSession, str]:
    browser = await world.login(email)
    cookie = cookie_of(browser)
    return browser, cookie


async def none(_world: World) -> str:
    return ""


async def expired(world: World) -> str:
    return signed_with(world).sign(SESSION, await claims(world, -1), seconds=-1)


async def signed_by_a_stranger(world: World) -> str:
    return SigningKeys(KeySet([OctKey.generate_key(256)])).sign(SESSION, await claims(world), seconds=3600)


async def unsigned(world: World) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    told = {**(await claims(world)).model_dump(), "aud": SESSION}
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(told)}."


async def for_another_purpose(world: World) -> str:
    return signed_with(world).sign(LOGIN, await claims(world), seconds=3600)


async def of_nobody(world: World) -> str:
    stranger = (await claims(world)).model_copy(update={"sub": "f" * 32})
    return signed_with(world).sign(SESSION, stranger, seconds=3600)


async def with_the_secret_of_another(world: World) -> str:
    ada, bob = [await make_token(await world.login(f"{name}@acme.example")) for name in ("ada", "bob")]
    return "_".join([*ada["token"].split("_", 3)[:3], bob["token"].split("_", 3)[3]])


async def signed_out(world: World) -> str:
    browser, session = await session_of(world, "ada@acme.example")
    async with browser.post("/v1/auth/logout", headers={"Origin": world.settings.public_url}) as answer:
        assert answer.status == 204, await answer.text()
    return session


async def revoked(world: World) -> str:
    browser = await world.login("ada@acme.example")
    made = await make_token(browser)
    assert await works(world, made["token"])
    async with browser.delete(f"/v1/users/me/tokens/{made['id']}") as answer:
        assert answer.status == 204
    return str(made["token"])


async def of_a_disabled_member(world: World) -> str:
    boss, (ada, session) = await world.login("boss@acme.example"), await session_of(world, "ada@acme.example")
    assert await works(world, session)
    async with boss.patch(f"/v1/members/{(await me(ada))['id']}", json={"disabled": True}) as answer:
        assert answer.status == 200, await answer.text()
    return session


async def key_of_a_service_account(world: World, then: str) -> str:
    """A key that worked, after a DELETE of this path below the account's."""
    boss = await world.login("boss@acme.example")
    account = "/v1/service-accounts/ci"
    async with boss.post("/v1/service-accounts", json={"name": "ci", "role": "admin"}) as answer:
        assert answer.status == 201, await answer.text()
    async with boss.post(f"{account}/keys", json={"name": "runner"}) as answer:
        assert answer.status == 201, await answer.text()
        made = await answer.json()
    assert await works(world, made["token"])
    async with boss.delete(account + then.format(key_id=made["id"])) as answer:
        assert answer.status == 204, await answer.text()
    return str(made["token"])


async def revoked_key(world: World) -> str:
    return await key_of_a_service_account(world, "/keys/{key_id}")


async def of_no_operator(_world: World) -> str:
    return f"clusterra-operator_{'x' * 43}"


async def of_a_shared_link(world: World) -> str:
    ada = await owner_of_a_job(world, job_id="8")
    made = await made_link(ada, LINKS.replace("/7/", "/8/"), shows=["output", "cost", "why"])
    await opened(world, made["token"])
    return str(made["token"])


async def of_a_deleted_service_account(world: World) -> str:
    return await key_of_a_service_account(world, "")


async def works(world: World, credential: str) -> bool:
    program = await world.browser()
    async with program.get("/v1/users/me", headers={"Authorization": f"Bearer {credential}"}) as answer:
        return answer.status == 200


CREDENTIALS: tuple[Credential, ...] = (
    *(none, expired, signed_by_a_stranger, unsigned, for_another_purpose, of_nobody),
    *(with_the_secret_of_another, signed_out, revoked, of_a_disabled_member),
    *(revoked_key, of_a_deleted_service_account, of_no_operator, of_a_shared_link),
)


def test_every_route_is_private_or_open_on_purpose() -> None:
    others = {route.name for route in route_table() if not isinstance(route, PrivateRoute | OperatorRoute)}

    assert others == OPEN | OF_AGENTS | OF_LINKS | PAGES


@pytest.mark.parametrize("credential", CREDENTIALS, ids=lambda each: each.__name__)
async def test_no_private_route_takes_it(world: World, credential: Credential) -> None:
    world.acme.add_job("7", user=SECRET)
    world.acme.edge.write_output("7", SECRET.encode())
    given = await credential(world)
    asked_before = (len(world.acme.submits), len(world.acme.cancelled), len(world.acme.changes))
    as_header = {"Authorization": f"Bearer {given}"} if given else {}
    as_cookie, as_host_cookie = (
        {"Cookie": f"{name}={given}", "Origin": world.settings.public_url} if given else {}
        for name in (COOKIE, HOST_COOKIE)
    )

    for headers in (as_header, as_cookie, as_host_cookie):
        async with aiohttp.ClientSession(world.url, headers=headers) as program:
            for route in route_table():
                if not isinstance(route, PrivateRoute | OperatorRoute):
                    continue
                body = {"script": "#!/bin/sh\n", "job": {}} if route.method == "POST" else None
                async with program.request(route.method, example_path(route), json=body) as answer:
                    text = await answer.text()
                assert answer.status == 401, (route.name, headers.keys(), text)
                assert SECRET not in text

    assert (len(world.acme.submits), len(world.acme.cancelled), len(world.acme.changes)) == asked_before


@pytest.mark.parametrize("credential", CREDENTIALS, ids=lambda each: each.__name__)
async def test_no_page_takes_it(world: World, credential: Credential) -> None:
    given = await credential(world)
    as_header = {"Authorization": f"Bearer {given}"} if given else {}
    as_cookie, as_host_cookie = (
        {"Cookie": f"{name}={given}", "Origin": world.settings.public_url} if given else {}
        for name in (COOKIE, HOST_COOKIE)
    )
    pages = [route for route in route_table() if isinstance(route, PageRoute)]
    assert {route.name for route in pages} == PAGES

    for headers in (as_header, as_cookie, as_host_cookie):
        async with aiohttp.ClientSession(world.url, headers=headers) as program:
            for route in pages:
                form = {"user_code": "BBBB-BBBB"} if route.method == "POST" else None
                async with program.request(
                    route.method, example_path(route), data=form, allow_redirects=False
                ) as answer:
                    led_to = answer.headers.get("Location", "") + await answer.text()
                assert answer.status == (303 if route.method == "GET" else 401), (route.name, headers.keys())
                assert "/v1/auth/login?return_to=" in led_to


@pytest.mark.parametrize("who", ["session", "token", "key"])
async def test_no_credential_of_a_tenant_opens_a_route_of_operators(world: World, who: str) -> None:
    boss, cookie = await session_of(world, "boss@acme.example")
    if who == "session":
        headers = {"Cookie": f"{COOKIE}={cookie}", "Origin": world.settings.public_url}
    elif who == "token":
        headers = {"Authorization": f"Bearer {(await make_token(boss))['token']}"}
    else:
        async with boss.post("/v1/service-accounts", json={"name": "ci", "role": "admin"}) as answer:
            assert answer.status == 201, await answer.text()
        async with boss.post("/v1/service-accounts/ci/keys", json={"name": "runner"}) as answer:
            headers = {"Authorization": f"Bearer {(await answer.json())['token']}"}

    async with aiohttp.ClientSession(world.url, headers=headers) as program:
        for route in route_table():
            if isinstance(route, OperatorRoute):
                async with program.request(route.method, example_path(route), json={}) as answer:
                    assert answer.status == 403, (route.name, await answer.text())


async def test_no_operator_opens_a_route_of_a_tenant(world: World) -> None:
    world.acme.add_job("7", user=SECRET)
    operator = await world.operator()

    for route in route_table():
        if isinstance(route, PrivateRoute):
            async with operator.request(route.method, example_path(route), json={}) as answer:
                text = await answer.text()
            assert answer.status == 403, (route.name, text)
            assert SECRET not in text


async def test_the_same_credentials_work_before_they_are_spoilt(world: World) -> None:
    whole = signed_with(world).sign(SESSION, await claims(world), seconds=3600)

    assert await works(world, whole)
    assert await works(world, (await make_token(await world.login("ada@acme.example")))["token"])
