"""Signing in: the code flow as it should be, and everything that must not pass for it."""

import base64
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from clusterra_gateway.identity.authentication import COOKIE, SESSION
from clusterra_gateway.identity.cookies import LOGIN_COOKIE
from clusterra_gateway.identity.sessions import Claims, SessionKeyMissing, SessionKeys
from clusterra_gateway.settings import Settings
from gateway_world import World, running
from issuer_stand_in import CLIENT_ID, CLIENT_SECRET, IssuerStandIn
from joserfc.jwk import KeySet, OctKey, OKPKey, RSAKey
from pydantic import ValidationError
from yarl import URL

type Json = dict[str, Any]


async def at_issuer(browser: aiohttp.ClientSession, email: str = "ada@acme.example") -> URL:
    """Begin a login and return where the issuer sends the browser."""
    async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
        authorize = f"{answer.headers['Location']}&login_hint={quote(email)}"
    async with browser.get(authorize, allow_redirects=False) as answer:
        return URL(answer.headers["Location"])


async def outcome(browser: aiohttp.ClientSession, url: URL | str) -> tuple[int, Json]:
    async with browser.get(url, allow_redirects=False) as answer:
        body = await answer.json() if answer.content_type.endswith("json") else {}
        return answer.status, body


async def profile(browser: aiohttp.ClientSession) -> Json:
    status, body = await outcome(browser, "/v1/users/me")
    assert status == 200, body
    return body


async def test_login_sets_a_cookie_for_this_browser_only(world: World) -> None:
    browser = await world.browser()
    back = await at_issuer(browser)
    async with browser.get(back, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/v1/users/me"
        cookie = answer.cookies[COOKIE]
        assert answer.cookies[LOGIN_COOKIE].value == ""
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["path"] == "/"
    assert int(cookie["max-age"]) == world.settings.session_seconds
    me = await profile(browser)
    assert (me["name"], me["uid"], me["email"], me["role"]) == ("ada", 20001, "ada@acme.example", "member")
    assert me["tenant"] == {"id": "acme", "name": "Acme"}
    assert me["burn_rate_usd_per_hour"] is None  # nobody answers for the usage here
    assert me["pending_bill_usd"] is None
    assert (await outcome(await world.browser(), "/v1/users/me"))[0] == 401


@pytest.mark.parametrize(("public_url", "secure"), [("https://clusterra.example", True), (None, False)])
async def test_cookies_travel_by_https_alone_where_there_is_https(
    settings: Settings, issuer: IssuerStandIn, public_url: str | None, secure: bool
) -> None:
    settings = settings.model_copy(update={"public_url": public_url or settings.public_url})
    async with running(settings, issuer) as world:
        browser = await world.browser()
        async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
            assert bool(answer.cookies[LOGIN_COOKIE]["secure"]) is secure
            assert URL(answer.headers["Location"]).query["redirect_uri"] == f"{settings.public_url}/v1/auth/callback"


async def test_a_page_can_finish_the_login_by_post(world: World) -> None:
    browser = await world.browser()
    back = await at_issuer(browser)
    answer = {"code": back.query["code"], "state": back.query["state"]}
    async with browser.post("/v1/auth/callback", json=answer, headers={"Origin": "https://evil.example"}) as refused:
        assert refused.status == 403
    async with browser.post("/v1/auth/callback", json=answer) as done:
        assert done.status == 200
        assert (await done.json())["name"] == "ada"
    assert (await profile(browser))["name"] == "ada"


async def test_a_person_keeps_name_and_uid_and_nobody_else_gets_them(world: World) -> None:
    first = await profile(await world.login("ada@acme.example"))
    again = await profile(await world.login("ada@acme.example"))
    namesake = await profile(await world.login("ADA+x@acme.example"))
    other_tenant = await profile(await world.login("ada@rival.example"))
    assert (again["name"], again["uid"]) == (first["name"], first["uid"])
    assert namesake["name"] == "ada-2"
    assert namesake["uid"] != first["uid"]
    assert (other_tenant["name"], other_tenant["uid"], other_tenant["tenant"]["id"]) == ("ada", 20001, "rival")


@pytest.mark.parametrize("local", ["root", "slurm", "clusterra", "Admin"])
async def test_names_with_rights_are_nobodys(world: World, local: str) -> None:
    me = await profile(await world.login(f"{local}@acme.example"))
    assert me["name"] == f"{local.lower()}-2"


async def test_an_invited_admin_is_one(world: World) -> None:
    assert (await profile(await world.login("Boss@acme.example")))["role"] == "admin"


async def test_strangers_are_told_whom_to_ask(world: World) -> None:
    browser = await world.browser()
    status, problem = await outcome(browser, await at_issuer(browser, "eve@elsewhere.example"))
    assert status == 403
    assert problem["type"] == "urn:clusterra:problem:forbidden"
    assert "admin" in problem["hint"]
    world.issuer.email_verified = False
    status, problem = await outcome(browser, await at_issuer(browser, "boss@acme.example"))
    assert status == 403
    assert "verif" in problem["detail"]
    assert (await outcome(browser, "/v1/users/me"))[0] == 401


async def test_an_address_may_be_told_by_user_info_alone(world: World) -> None:
    world.issuer.thrifty = True
    assert (await profile(await world.login("ada@acme.example")))["email"] == "ada@acme.example"
    assert "userinfo" in world.issuer.calls
    world.issuer.email_verified = False
    browser = await world.browser()
    assert (await outcome(browser, await at_issuer(browser, "bob@acme.example")))[0] == 403
    world.issuer.email_verified = True
    world.issuer.user_info_of = "boss@acme.example"
    assert (await outcome(browser, await at_issuer(browser, "bob@acme.example")))[0] == 401


async def test_a_login_can_only_be_finished_where_it_was_begun(world: World) -> None:
    victim, attacker = await world.browser(), await world.browser()
    theirs = await at_issuer(attacker)
    assert (await outcome(victim, theirs))[0] == 401  # no login was begun there
    await at_issuer(victim)
    assert (await outcome(victim, theirs))[0] == 401  # another one was
    assert (await outcome(victim, theirs.update_query(state="")))[0] == 401
    assert COOKIE not in {cookie.key for cookie in victim.cookie_jar}
    assert (await outcome(attacker, theirs))[0] == 303
    assert (await outcome(attacker, theirs))[0] == 401  # the state is used up


async def test_an_answer_of_another_issuer_is_refused(world: World) -> None:
    browser = await world.browser()
    back = await at_issuer(browser)
    assert (await outcome(browser, back.update_query(iss="https://evil.example")))[0] == 401
    assert (await outcome(browser, back.update_query(iss=world.issuer.address)))[0] == 303


async def test_a_code_of_another_login_is_refused(world: World) -> None:
    """PKCE: the code is bound to the verifier of the browser that it was asked for."""
    browser, other = await world.browser(), await world.browser()
    mine, theirs = await at_issuer(browser), await at_issuer(other, "bob@acme.example")
    assert (await outcome(browser, mine.update_query(code=theirs.query["code"])))[0] == 401


async def test_a_cancelled_login_is_told(world: World) -> None:
    browser = await world.browser()
    back = await at_issuer(browser)
    refused = back.with_query(error="access_denied", state=back.query["state"])
    assert (await outcome(browser, refused))[0] == 401


def wrong_nonce(_header: Json, claims: Json) -> None:
    claims["nonce"] = "another"


def no_nonce(_header: Json, claims: Json) -> None:
    del claims["nonce"]


def expired(_header: Json, claims: Json) -> None:
    claims["exp"] = int(time.time()) - 3600


def endless(_header: Json, claims: Json) -> None:
    del claims["exp"]


def from_the_future(_header: Json, claims: Json) -> None:
    claims["iat"] = int(time.time()) + 3600


def other_issuer(_header: Json, claims: Json) -> None:
    claims["iss"] = "https://evil.example"


def other_audience(_header: Json, claims: Json) -> None:
    claims["aud"] = "another-client"


def shared_audience(_header: Json, claims: Json) -> None:
    claims["aud"] = [CLIENT_ID, "another-client"]
    claims["azp"] = "another-client"


def nobody(_header: Json, claims: Json) -> None:
    del claims["sub"]


def unsigned(header: Json, _claims: Json) -> None:
    header["alg"] = "none"


@pytest.mark.parametrize(
    "tamper",
    [
        wrong_nonce,
        no_nonce,
        expired,
        endless,
        from_the_future,
        other_issuer,
        other_audience,
        shared_audience,
        nobody,
        unsigned,
    ],
)
async def test_an_id_token_that_is_not_for_this_login_is_refused(
    world: World, tamper: Callable[[Json, Json], None]
) -> None:
    world.issuer.tamper = tamper
    browser = await world.browser()
    status, problem = await outcome(browser, await at_issuer(browser))
    assert status == 401, problem
    world.issuer.tamper = None
    assert (await outcome(browser, await at_issuer(browser)))[0] == 303


async def test_an_id_token_of_a_foreign_key_is_refused(world: World) -> None:
    world.issuer.key = RSAKey.generate_key(2048, {"kid": "first"}, private=True)
    browser = await world.browser()
    assert (await outcome(browser, await at_issuer(browser)))[0] == 401


async def test_our_own_secret_signs_no_id_token(world: World) -> None:
    """The classic confusion: a symmetric signature with what the client knows as well."""
    world.issuer.secret = OctKey.import_key(CLIENT_SECRET)
    world.issuer.tamper = lambda header, _claims: header.update(alg="HS256")
    browser = await world.browser()
    assert (await outcome(browser, await at_issuer(browser)))[0] == 401


async def test_a_new_key_of_the_issuer_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.login("ada@acme.example")
    world.issuer.key = RSAKey.generate_key(2048, {"kid": "second"}, private=True)
    world.issuer.published.append(world.issuer.key)
    browser = await world.browser()
    assert (await outcome(browser, await at_issuer(browser)))[0] == 401  # asked for just now, not again so soon
    monkeypatch.setattr("clusterra_gateway.identity.oidc.KEYS_REFETCH_SECONDS", 0.0)
    await world.login("ada@acme.example")
    assert world.issuer.calls.count("discovery") == 1


@pytest.mark.parametrize(
    "return_to", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\r\nb", "/a b"]
)
async def test_a_login_leads_to_no_other_site(world: World, return_to: str) -> None:
    browser = await world.browser()
    async with browser.get("/v1/auth/login", params={"return_to": return_to}, allow_redirects=False) as answer:
        assert answer.status == 400
    async with browser.get("/v1/auth/login", params={"return_to": "/console?x=1"}, allow_redirects=False) as answer:
        assert answer.status == 302


async def test_after_signing_out_the_cookie_is_worth_nothing(world: World) -> None:
    browser = await world.login("ada@acme.example")
    stolen = {COOKIE: next(cookie.value for cookie in browser.cookie_jar if cookie.key == COOKIE)}
    thief = await world.browser()
    async with thief.get("/v1/users/me", cookies=stolen) as answer:
        assert answer.status == 200
    async with browser.post("/v1/auth/logout") as answer:
        assert answer.status == 204
        assert answer.cookies[COOKIE].value == ""
    async with thief.get("/v1/users/me", cookies=stolen) as answer:
        assert answer.status == 401


def a_minute_ago(session: str, keys: SessionKeys) -> str:
    claims = keys.verify(SESSION, session, Claims)
    return keys.sign(SESSION, claims.model_copy(update={"exp": int(time.time()) - 60}), seconds=1)


def of_another_key(session: str, keys: SessionKeys) -> str:
    claims = keys.verify(SESSION, session, Claims)
    return SessionKeys(KeySet([OctKey.import_key(secrets.token_bytes(32))])).sign(SESSION, claims, seconds=60)


def for_another_use(session: str, keys: SessionKeys) -> str:
    return keys.sign("clusterra-login", keys.verify(SESSION, session, Claims), seconds=60)


def not_signed(session: str, _keys: SessionKeys) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{header}.{session.split('.')[1]}."


def cut_off(session: str, _keys: SessionKeys) -> str:
    return session[:-2]


@pytest.mark.parametrize("forge", [a_minute_ago, of_another_key, for_another_use, not_signed, cut_off])
async def test_forged_and_expired_sessions_are_refused(world: World, forge: Callable[[str, SessionKeys], str]) -> None:
    browser = await world.login("ada@acme.example")
    session = next(cookie.value for cookie in browser.cookie_jar if cookie.key == COOKIE)
    forged = forge(session, SessionKeys.load(world.settings.session_key_file))
    other = await world.browser()
    async with other.get("/v1/users/me", cookies={COOKIE: forged}) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    async with other.get("/v1/users/me", headers={"Authorization": f"Bearer {forged}"}) as answer:
        assert answer.status == 401
    async with other.get("/v1/users/me", headers={"Authorization": f"Bearer {session}"}) as answer:
        assert answer.status == 200


def test_without_a_key_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(SessionKeyMissing, match="CLUSTERRA_SESSION_KEY_FILE"):
        SessionKeys.load(None)
    with pytest.raises(SessionKeyMissing, match="cannot be read"):
        SessionKeys.load(tmp_path / "none")
    for content in (b"short", b"{}", b'{"keys": []}', b'{"kty": "oct", "k": "c2hvcnQ"}', b"{broken"):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(SessionKeyMissing) as refused:
            SessionKeys.load(tmp_path / "key")
        assert "c2hvcnQ" not in str(refused.value)


def test_a_key_can_be_replaced_while_its_sessions_live(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    old, new = OctKey.generate_key(256), OKPKey.generate_key("Ed25519")
    claims = Claims(sub="somebody", jti="1", iat=int(time.time()), exp=int(time.time()) + 60)

    def loaded(*keys: OctKey | OKPKey) -> SessionKeys:
        file.write_text(key_set_json(*keys))
        return SessionKeys.load(file)

    before = loaded(old).sign(SESSION, claims, seconds=60)
    after = loaded(new, old)
    assert after.verify(SESSION, before, Claims) == claims
    assert loaded(new).verify(SESSION, after.sign(SESSION, claims, seconds=60), Claims) == claims


def key_set_json(*keys: OctKey | OKPKey) -> str:
    return json.dumps(KeySet(list(keys)).as_dict(private=True))


@pytest.mark.parametrize("address", ["http://issuer.example", "ftp://127.0.0.1", "issuer.example"])
def test_only_this_machine_is_trusted_without_tls(settings: Settings, address: str) -> None:
    given = settings.model_dump()
    for name in ("oidc_issuer", "public_url"):
        with pytest.raises(ValidationError, match="https://"):
            Settings.model_validate(given | {name: address})
