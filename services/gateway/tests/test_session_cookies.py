"""The session cookie: its name over HTTPS, and its renewal."""

import time
from collections.abc import AsyncIterator
from http.cookies import Morsel, SimpleCookie
from urllib.parse import quote

import aiohttp
import pytest
from clusterra_gateway.identity.access.authentication import COOKIE, HOST_COOKIE, SESSION
from clusterra_gateway.identity.access.cookies import HOST_LOGIN_COOKIE, LOGIN_COOKIE
from clusterra_gateway.identity.access.signed_tokens import Claims, SigningKeys
from clusterra_gateway.settings import Settings
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from yarl import URL

HTTPS = "https://clusterra.example"
DAY = 86_400


@pytest.fixture
async def over_https(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    """A gateway that browsers reach over HTTPS, through something that the tests stand in for."""
    async with running(settings.model_copy(update={"public_url": HTTPS}), issuer) as world:
        yield world


async def program(world: World) -> aiohttp.ClientSession:
    """Sends the cookies that it is told to, and keeps none."""
    jar = aiohttp.DummyCookieJar()
    return await world.opened.enter_async_context(aiohttp.ClientSession(world.url, cookie_jar=jar))


async def signed_in(world: World, email: str) -> SimpleCookie:
    """The cookies that a browser gets at the end of a login over HTTPS."""
    browser = await program(world)
    async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
        login = {HOST_LOGIN_COOKIE: answer.cookies[HOST_LOGIN_COOKIE].value}
        authorize = f"{answer.headers['Location']}&login_hint={quote(email)}"
    async with browser.get(authorize, allow_redirects=False) as answer:
        back = URL(answer.headers["Location"])
    async with browser.get(back.path_qs, cookies=login, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        return answer.cookies


async def answered(world: World, cookies: dict[str, str], path: str = "/v1/users/me") -> tuple[int, SimpleCookie]:
    async with (await program(world)).get(path, cookies=cookies) as answer:
        return answer.status, answer.cookies


def is_bound_to_the_host(cookie: Morsel[str]) -> bool:
    """Whether browsers take a cookie with the prefix `__Host-`."""
    return bool(cookie["secure"]) and bool(cookie["httponly"]) and cookie["path"] == "/" and not cookie["domain"]


async def session_of(world: World, *, left: float, age: float = 0, member: str = "") -> str:
    """A session of Ada with so many seconds left, which she began so many seconds ago."""
    if not member:
        browser = await world.login("ada@acme.example")
        async with browser.get("/v1/users/me") as answer:
            member = (await answer.json())["id"]
    at = int(time.time())
    claims = Claims(sub=member, jti="1" * 32, iat=at, exp=at + int(left), auth_time=at - int(age))
    return SigningKeys.load(world.settings.session_key_file).sign(SESSION, claims, seconds=left)


def claims_of(world: World, session: str) -> Claims:
    return SigningKeys.load(world.settings.session_key_file).verify(SESSION, session, Claims)


async def test_over_https_the_login_is_bound_to_our_own_host(over_https: World) -> None:
    async with (await program(over_https)).get("/v1/auth/login", allow_redirects=False) as answer:
        cookies = answer.cookies

    assert set(cookies) == {HOST_LOGIN_COOKIE}
    assert is_bound_to_the_host(cookies[HOST_LOGIN_COOKIE])
    assert (await signed_in(over_https, "ada@acme.example"))[HOST_LOGIN_COOKIE].value == ""


async def test_a_login_that_another_host_of_our_domain_has_planted_counts_for_nothing(over_https: World) -> None:
    browser = await program(over_https)
    async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
        theirs = answer.cookies[HOST_LOGIN_COOKIE].value
        authorize = f"{answer.headers['Location']}&login_hint={quote('eve@rival.example')}"
    async with browser.get(authorize, allow_redirects=False) as answer:
        back = URL(answer.headers["Location"])

    async with browser.get(back.path_qs, cookies={LOGIN_COOKIE: theirs}, allow_redirects=False) as answer:
        assert (answer.status, (await answer.json())["detail"]) == (401, "no login was begun in this browser")


async def test_over_https_the_session_is_bound_to_our_own_host(over_https: World) -> None:
    cookies = await signed_in(over_https, "ada@acme.example")

    assert is_bound_to_the_host(cookies[HOST_COOKIE])
    assert cookies[HOST_COOKIE]["samesite"] == "Lax"
    assert cookies[COOKIE].value == ""
    assert (await answered(over_https, {HOST_COOKIE: cookies[HOST_COOKIE].value}))[0] == 200

    origin = {"Origin": HTTPS}
    own = {HOST_COOKIE: cookies[HOST_COOKIE].value}
    async with (await program(over_https)).post("/v1/auth/logout", cookies=own, headers=origin) as answer:
        assert answer.status == 204
        assert {name: answer.cookies[name].value for name in (COOKIE, HOST_COOKIE)} == {COOKIE: "", HOST_COOKIE: ""}
        assert is_bound_to_the_host(answer.cookies[HOST_COOKIE])


async def test_over_https_a_session_of_the_other_name_counts_for_nothing(over_https: World) -> None:
    ada, eve = [
        (await signed_in(over_https, email))[HOST_COOKIE].value for email in ("ada@acme.example", "eve@rival.example")
    ]

    assert (await answered(over_https, {COOKIE: eve}))[0] == 401
    async with (await program(over_https)).get("/v1/users/me", cookies={COOKIE: eve, HOST_COOKIE: ada}) as answer:
        assert (await answer.json())["email"] == "ada@acme.example"


async def test_a_session_is_renewed_in_the_second_half_of_its_time(world: World) -> None:
    whole = world.settings.session_seconds
    young = await session_of(world, left=whole * 0.6)
    old = await session_of(world, left=whole * 0.4, age=whole * 0.6)

    assert (await answered(world, {COOKIE: young}))[1] == {}
    status, cookies = await answered(world, {COOKIE: old})

    assert status == 200
    before, after = claims_of(world, old), claims_of(world, cookies[COOKIE].value)
    assert after.exp == pytest.approx(time.time() + whole, abs=10)
    assert (after.sub, after.jti, after.auth_time) == (before.sub, before.jti, before.auth_time)
    assert int(cookies[COOKIE]["max-age"]) == pytest.approx(whole, abs=10)
    assert cookies[COOKIE]["httponly"]
    assert (await answered(world, {COOKIE: cookies[COOKIE].value})) == (200, SimpleCookie())


async def test_over_https_a_session_is_renewed_under_the_name_of_our_host(over_https: World) -> None:
    ada = claims_of(over_https, (await signed_in(over_https, "ada@acme.example"))[HOST_COOKIE].value)
    old = await session_of(over_https, left=3600, age=3600, member=ada.sub)

    _, cookies = await answered(over_https, {HOST_COOKIE: old})

    assert set(cookies) == {HOST_COOKIE}
    assert is_bound_to_the_host(cookies[HOST_COOKIE])


async def test_a_session_ends_some_days_after_the_sign_in_however_often_it_is_used(world: World) -> None:
    longest = world.settings.session_max_seconds
    nearly = await session_of(world, left=60, age=longest - 3600)
    over = await session_of(world, left=60, age=longest - 60)

    _, cookies = await answered(world, {COOKIE: nearly})

    assert claims_of(world, cookies[COOKIE].value).exp == pytest.approx(time.time() + 3600, abs=10)
    assert (await answered(world, {COOKIE: over})) == (200, SimpleCookie())


async def test_a_session_of_the_release_before_is_renewed(world: World) -> None:
    old = claims_of(world, await session_of(world, left=3600)).model_copy(update={"auth_time": None})
    session = SigningKeys.load(world.settings.session_key_file).sign(SESSION, old, seconds=3600)

    _, cookies = await answered(world, {COOKIE: session})

    assert claims_of(world, cookies[COOKIE].value).auth_time == old.iat


async def test_a_sign_out_ends_all_renewals_of_the_session(world: World) -> None:
    old = await session_of(world, left=3600, age=3600)
    _, cookies = await answered(world, {COOKIE: old})
    renewed = cookies[COOKIE].value

    async with (await program(world)).post("/v1/auth/logout", cookies={COOKIE: old}) as answer:
        assert answer.status == 204
        assert answer.cookies[COOKIE].value == ""

    assert (await answered(world, {COOKIE: renewed}))[0] == 401
    (mark,) = [
        item
        for items in world.store._tables["accounts"].values()
        for key, item in items.items()
        if key.startswith("signed-out#")
    ]
    assert mark.expires_at is not None
    assert mark.expires_at >= claims_of(world, renewed).exp + DAY


async def test_what_sets_the_session_itself_is_not_overruled_by_a_renewal(world: World) -> None:
    old = await session_of(world, left=3600, age=3600)

    async with (await program(world)).post("/v1/users/me/memberships/acme/session", cookies={COOKIE: old}) as answer:
        assert answer.status == 200, await answer.text()
        chosen = claims_of(world, answer.cookies[COOKIE].value)

    assert chosen.jti != claims_of(world, old).jti
    assert chosen.exp == claims_of(world, old).exp
    assert chosen.auth_time == claims_of(world, old).auth_time


async def test_programs_get_no_cookies(world: World) -> None:
    old = await session_of(world, left=3600, age=3600)

    async with (await program(world)).get("/v1/users/me", headers={"Authorization": f"Bearer {old}"}) as answer:
        assert (answer.status, answer.cookies) == (200, SimpleCookie())
