"""Signing in: the authorization code flow, and every forgery of it that must fail."""

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
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key, invitation_key
from clusterra_gateway.accounts.records import Domain, Invitation
from clusterra_gateway.identity.access.authentication import COOKIE, SESSION
from clusterra_gateway.identity.access.cookies import HOST_LOGIN_COOKIE, LOGIN, LOGIN_COOKIE
from clusterra_gateway.identity.access.signed_tokens import Claims, LoginState, SigningKeyMissing, SigningKeys
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.process import until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import Put, Update
from gateway_world import World, authorized, running
from issuer_stand_in import CLIENT_ID, CLIENT_SECRET, IssuerStandIn
from joserfc.jwk import KeySet, OctKey, OKPKey, RSAKey
from people_world import TAKEN_SECONDS, cookie_of, me, replica
from pydantic import ValidationError
from yarl import URL

type Json = dict[str, Any]


async def get(browser: aiohttp.ClientSession, url: URL | str) -> tuple[int, Json]:
    async with browser.get(url, allow_redirects=False) as answer:
        body = await answer.json() if answer.content_type.endswith("json") else {}
        return answer.status, body


async def test_a_login_signs_in_this_browser_only(world: World) -> None:
    browser = await world.browser()
    back = await authorized(browser)

    async with browser.get(back, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/v1/users/me"
        cookie = answer.cookies[COOKIE]
        assert answer.cookies[LOGIN_COOKIE].value == ""

    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["path"] == "/"
    assert int(cookie["max-age"]) == world.settings.session_seconds

    profile = await me(browser)
    assert (profile["name"], profile["uid"], profile["role"]) == ("ada", 20001, "member")
    assert profile["email"] == "ada@acme.example"
    assert profile["tenant"] == {"id": "acme", "name": "Acme"}
    assert profile["burn_rate_usd_per_hour"] is None  # no ledger serves here
    assert profile["pending_bill_usd"] is None

    assert (await get(await world.browser(), "/v1/users/me"))[0] == 401


@pytest.mark.parametrize(("public_url", "secure"), [("https://clusterra.example", True), (None, False)])
async def test_cookies_are_secure_where_the_gateway_has_https(
    settings: Settings, issuer: IssuerStandIn, public_url: str | None, secure: bool
) -> None:
    settings = settings.model_copy(update={"public_url": public_url or settings.public_url})

    async with running(settings, issuer) as world:
        browser = await world.browser()
        async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
            assert bool(answer.cookies[HOST_LOGIN_COOKIE if secure else LOGIN_COOKIE]["secure"]) is secure
            assert URL(answer.headers["Location"]).query["redirect_uri"] == f"{settings.public_url}/v1/auth/callback"


async def test_a_page_of_our_own_can_finish_the_login(world: World) -> None:
    browser = await world.browser()
    back = await authorized(browser)
    answer = {"code": back.query["code"], "state": back.query["state"]}

    async with browser.post("/v1/auth/callback", json=answer, headers={"Origin": "https://evil.example"}) as rejected:
        assert rejected.status == 403

    async with browser.post("/v1/auth/callback", json=answer) as done:
        assert done.status == 200
        assert (await done.json())["name"] == "ada"
    assert (await me(browser))["name"] == "ada"


async def test_a_person_keeps_their_name_and_uid(world: World) -> None:
    first = await me(await world.login("ada@acme.example"))
    again = await me(await world.login("ada@acme.example"))
    namesake = await me(await world.login("ADA+x@acme.example"))
    other_tenant = await me(await world.login("ada@rival.example"))

    assert (again["name"], again["uid"]) == (first["name"], first["uid"])
    assert namesake["name"] == "ada-2"
    assert namesake["uid"] != first["uid"]
    assert (other_tenant["name"], other_tenant["uid"], other_tenant["tenant"]["id"]) == ("ada", 20001, "rival")


@pytest.mark.parametrize("local", ["root", "slurm", "clusterra", "Admin"])
async def test_reserved_names_are_given_to_no_one(world: World, local: str) -> None:
    profile = await me(await world.login(f"{local}@acme.example"))
    assert profile["name"] == f"{local.lower()}-2"


async def test_an_invited_admin_is_an_admin(world: World) -> None:
    assert (await me(await world.login("Boss@acme.example")))["role"] == "admin"


async def test_an_invitation_takes_nobody_from_the_tenant_of_their_domain(world: World) -> None:
    for email in ("grace@acme.example", "grace@elsewhere.example"):
        invitation = Invitation(tenant="rival", admin=True).attributes()
        await world.store.write(Put(ACCOUNTS, invitation_key(email), invitation, Absent()))

    own = await me(await world.login("grace@acme.example"))
    invited = await me(await world.login("grace@elsewhere.example"))

    assert (own["tenant"]["id"], own["role"]) == ("acme", "member")
    assert (invited["tenant"]["id"], invited["role"]) == ("rival", "admin")


@pytest.mark.parametrize(("bound", "status"), [("https://id.acme.example", 403), ("", 303)])
async def test_an_issuer_asserts_addresses_of_the_domains_bound_to_it_alone(
    world: World, bound: str, status: int
) -> None:
    domain = Domain(tenant="acme", issuers=(bound or world.issuer.address,)).attributes()
    await world.store.write(Update(ACCOUNTS, domain_key("acme.example"), set=domain))
    browser = await world.browser()

    assert (await get(browser, await authorized(browser, "grace@acme.example")))[0] == status
    assert (await get(browser, await authorized(browser, "grace@rival.example")))[0] == 303


async def test_an_issuer_that_verifies_nothing_is_trusted_in_the_domains_bound_to_it(world: World) -> None:
    world.issuer.email_verified = None
    bound = Domain(tenant="acme", issuers=(world.issuer.address,)).attributes()
    await world.store.write(Update(ACCOUNTS, domain_key("acme.example"), set=bound))
    invitation = Invitation(tenant="rival").attributes()
    await world.store.write(Put(ACCOUNTS, invitation_key("grace@elsewhere.example"), invitation, Absent()))
    browser = await world.browser()

    profile = await me(await world.login("grace@acme.example"))

    assert (profile["email"], profile["tenant"]["id"]) == ("grace@acme.example", "acme")
    for stranger in ("grace@rival.example", "grace@elsewhere.example"):
        assert (await get(browser, await authorized(browser, stranger)))[0] == 403


@pytest.mark.parametrize("email_verified", [None, True])
async def test_a_user_name_is_no_address(world: World, email_verified: bool | None) -> None:
    world.issuer.email_verified, world.issuer.email_claim = email_verified, "preferred_username"
    bound = Domain(tenant="acme", issuers=(world.issuer.address,)).attributes()
    await world.store.write(Update(ACCOUNTS, domain_key("acme.example"), set=bound))
    browser = await world.browser()

    status, problem = await get(browser, await authorized(browser, "boss@acme.example"))

    assert status == 403
    assert "gives no e-mail address" in problem["detail"]
    assert "claim `email`" in problem["hint"]
    assert (await get(browser, "/v1/users/me"))[0] == 401


async def test_a_member_keeps_signing_in_without_an_address(world: World) -> None:
    await world.login("ada@acme.example")
    world.issuer.email_claim = "preferred_username"

    profile = await me(await world.login("ada@acme.example"))

    assert (profile["name"], profile["email"]) == ("ada", "ada@acme.example")


async def test_a_member_keeps_signing_in_but_takes_no_address_of_a_foreign_domain(world: World) -> None:
    await world.login("ada@acme.example")
    await world.store.write(
        Update(ACCOUNTS, domain_key("rival.example"), set=Domain(tenant="rival", issuers=("https://x",)).attributes())
    )

    def moved(_header: Json, claims: Json) -> None:
        claims["email"] = "boss@rival.example"

    world.issuer.tamper = moved
    profile = await me(await world.login("ada@acme.example"))

    assert (profile["email"], profile["tenant"]["id"], profile["role"]) == ("ada@acme.example", "acme", "member")


async def test_strangers_and_unverified_addresses_are_rejected_with_a_hint(world: World) -> None:
    browser = await world.browser()

    status, problem = await get(browser, await authorized(browser, "eve@elsewhere.example"))

    assert status == 403
    assert problem["type"] == "/v1/problems/forbidden"
    assert "admin" in problem["hint"]

    world.issuer.email_verified = False
    status, problem = await get(browser, await authorized(browser, "boss@acme.example"))

    assert status == 403
    assert "verif" in problem["detail"]

    assert (await get(browser, "/v1/users/me"))[0] == 401


async def test_the_address_may_come_from_user_info_alone(world: World) -> None:
    world.issuer.email_in_user_info_only = True

    assert (await me(await world.login("ada@acme.example")))["email"] == "ada@acme.example"
    assert "userinfo" in world.issuer.calls

    world.issuer.email_verified = False
    browser = await world.browser()
    assert (await get(browser, await authorized(browser, "bob@acme.example")))[0] == 403

    world.issuer.email_verified = True
    world.issuer.user_info_of = "boss@acme.example"
    assert (await get(browser, await authorized(browser, "bob@acme.example")))[0] == 401


async def test_the_verification_of_one_address_counts_for_no_other(world: World) -> None:
    def other_address(_header: Json, claims: Json) -> None:
        claims["email"] = "boss@acme.example"
        del claims["email_verified"]

    world.issuer.tamper = other_address

    assert (await me(await world.login("ada@acme.example")))["email"] == "ada@acme.example"


async def test_a_login_can_only_be_finished_in_the_browser_that_began_it(world: World) -> None:
    victim, attacker = await world.browser(), await world.browser()
    theirs = await authorized(attacker)

    assert (await get(victim, theirs))[0] == 401  # no login was begun there

    await authorized(victim)
    assert (await get(victim, theirs))[0] == 401  # another one was
    assert (await get(victim, theirs.update_query(state="")))[0] == 401

    assert COOKIE not in {cookie.key for cookie in victim.cookie_jar}

    assert (await get(attacker, theirs))[0] == 303
    assert (await get(attacker, theirs))[0] == 401  # the state is used up


async def test_an_answer_of_another_issuer_is_rejected(world: World) -> None:
    browser = await world.browser()
    back = await authorized(browser)

    assert (await get(browser, back.update_query(iss="https://evil.example")))[0] == 401
    assert (await get(browser, back.update_query(iss=world.issuer.address)))[0] == 303


@pytest.mark.parametrize(("issuer_of_state", "status"), [("https://evil.example", 401), ("", 303)])
async def test_a_login_ends_at_the_issuer_where_it_began(world: World, issuer_of_state: str, status: int) -> None:
    """The release before named no issuer."""
    browser = await world.browser()
    back = await authorized(browser)
    keys = SigningKeys.load(world.settings.session_key_file)
    cookie = cookie_of(browser, LOGIN_COOKIE)
    state = keys.verify(LOGIN, cookie, LoginState)
    assert state.issuer == world.issuer.address

    changed = keys.sign(LOGIN, state.model_copy(update={"issuer": issuer_of_state}), seconds=60)
    async with (await world.browser()).get(back, cookies={LOGIN_COOKIE: changed}, allow_redirects=False) as answer:
        assert answer.status == status


async def test_the_code_of_another_login_is_rejected(world: World) -> None:
    """PKCE binds the code to the verifier of the browser that began the login."""
    browser, other = await world.browser(), await world.browser()
    mine, theirs = await authorized(browser), await authorized(other, "bob@acme.example")

    assert (await get(browser, mine.update_query(code=theirs.query["code"])))[0] == 401


async def test_a_cancelled_login_signs_no_one_in(world: World) -> None:
    browser = await world.browser()
    back = await authorized(browser)
    cancelled = back.with_query(error="access_denied", state=back.query["state"])

    assert (await get(browser, cancelled))[0] == 401


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_a_browser_is_shown_why_a_login_failed_and_led_back(world: World) -> None:
    browser = await world.browser()
    wanted = quote("/c/main/jobs?sort=name&x=1", safe="")
    back = await authorized(browser, begin=f"/v1/auth/login?return_to={wanted}")
    cancelled = back.with_query(error="access_denied", state=back.query["state"])

    async with browser.get(cancelled, headers=BROWSER, allow_redirects=False) as answer:
        assert (answer.status, answer.content_type) == (401, "text/html")
        assert "script-src" not in answer.headers["Content-Security-Policy"]
        page = await answer.text()
        assert answer.headers["X-Request-Id"] in page

    assert "The sign-in was not completed" in page
    assert f'href="/sign-in?return_to={wanted}"' in page


async def test_a_browser_without_a_login_is_led_to_the_sign_in(world: World) -> None:
    browser = await world.browser()

    async with browser.get("/v1/auth/callback?state=%3Cscript%3E", headers=BROWSER) as answer:
        assert (answer.status, answer.content_type) == (401, "text/html")
        page = await answer.text()

    assert 'href="/sign-in"' in page
    assert "<script" not in page


WRONG_CLAIMS: dict[str, Json] = {
    "with another nonce": {"nonce": "another"},
    "without nonce": {"nonce": None},
    "expired": {"exp": int(time.time()) - 3600},
    "without expiry": {"exp": None},
    "issued in the future": {"iat": int(time.time()) + 3600},
    "of another issuer": {"iss": "https://evil.example"},
    "for another client": {"aud": "another-client"},
    "for several clients": {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
    "without subject": {"sub": None},
    "unsigned": {},
}
"""What is wrong with an id_token, and the claims that it has in place of the right ones; None for one that it lacks."""


@pytest.mark.parametrize("wrong", WRONG_CLAIMS)
async def test_an_id_token_with_wrong_claims_is_rejected(world: World, wrong: str) -> None:
    def tamper(header: Json, claims: Json) -> None:
        changed = claims | WRONG_CLAIMS[wrong]
        claims.clear()
        claims.update({name: value for name, value in changed.items() if value is not None})
        header.update({"alg": "none"} if wrong == "unsigned" else {})

    world.issuer.tamper = tamper
    browser = await world.browser()

    status, problem = await get(browser, await authorized(browser))
    assert status == 401, problem

    world.issuer.tamper = None
    assert (await get(browser, await authorized(browser)))[0] == 303


async def test_an_id_token_with_an_unknown_key_is_rejected(world: World) -> None:
    world.issuer.key = RSAKey.generate_key(2048, {"kid": "first"}, private=True)
    browser = await world.browser()

    assert (await get(browser, await authorized(browser)))[0] == 401


async def test_an_id_token_signed_with_the_client_secret_is_rejected(world: World) -> None:
    """Algorithm confusion: a symmetric signature with a secret that the client knows too."""
    world.issuer.secret = OctKey.import_key(CLIENT_SECRET)
    world.issuer.tamper = lambda header, _claims: header.update(alg="HS256")

    browser = await world.browser()
    assert (await get(browser, await authorized(browser)))[0] == 401


async def test_a_new_key_of_the_issuer_is_fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.login("ada@acme.example")

    world.issuer.key = RSAKey.generate_key(2048, {"kid": "second"}, private=True)
    world.issuer.published.append(world.issuer.key)

    browser = await world.browser()
    # The keys were fetched a moment ago and are not fetched again so soon.
    assert (await get(browser, await authorized(browser)))[0] == 401

    monkeypatch.setattr("clusterra_gateway.identity.issuers.issuer_documents.KEYS_REFETCH_SECONDS", 0.0)
    await world.login("ada@acme.example")
    assert world.issuer.calls.count("discovery") == 1


async def test_a_new_key_without_an_id_is_fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.login("ada@acme.example")
    monkeypatch.setattr("clusterra_gateway.identity.issuers.issuer_documents.KEYS_REFETCH_SECONDS", 0.0)

    world.issuer.key = RSAKey.generate_key(2048, private=True)
    world.issuer.published = [world.issuer.key]
    world.issuer.tamper = lambda header, _claims: header.pop("kid")

    await world.login("ada@acme.example")


@pytest.mark.parametrize(
    "return_to",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "https://evil.example:99999/",
        "evil",
        "/a\r\nb",
        "/a b",
    ],
)
async def test_a_login_redirects_to_no_other_site(world: World, return_to: str) -> None:
    browser = await world.browser()

    async with browser.get("/v1/auth/login", params={"return_to": return_to}, allow_redirects=False) as answer:
        assert answer.status == 400
    async with browser.get("/v1/auth/login", params={"return_to": "/console?x=1"}, allow_redirects=False) as answer:
        assert answer.status == 302


async def test_the_cookie_of_a_signed_out_session_is_rejected(world: World) -> None:
    browser = await world.login("ada@acme.example")
    stolen = {COOKIE: cookie_of(browser)}
    thief = await world.browser()
    async with thief.get("/v1/users/me", cookies=stolen) as answer:
        assert answer.status == 200

    async with browser.post("/v1/auth/logout") as answer:
        assert answer.status == 204
        assert answer.cookies[COOKIE].value == ""

    async with thief.get("/v1/users/me", cookies=stolen) as answer:
        assert answer.status == 401


@pytest.mark.parametrize("ends", ["auth/logout", "users/me/memberships/acme/session"])
async def test_a_session_that_ends_is_known_on_every_replica(world: World, ends: str) -> None:
    browser, thief = await world.login("ada@acme.example"), await world.browser()
    stolen = {COOKIE: cookie_of(browser)}

    async with replica(world) as url:

        async def status() -> int:
            async with thief.get(f"{url}/v1/users/me", cookies=stolen) as answer:
                return answer.status

        assert await status() == 200
        async with browser.post(f"/v1/{ends}") as answer:
            assert answer.status < 300

        async def gone() -> bool:
            return await status() == 401

        await until(gone, seconds=TAKEN_SECONDS, what="the other replica to know")


def expired_a_minute_ago(session: str, keys: SigningKeys) -> str:
    claims = keys.verify(SESSION, session, Claims)
    return keys.sign(SESSION, claims.model_copy(update={"exp": int(time.time()) - 60}), seconds=1)


def signed_with_another_key(session: str, keys: SigningKeys) -> str:
    claims = keys.verify(SESSION, session, Claims)
    return SigningKeys(KeySet([OctKey.import_key(secrets.token_bytes(32))])).sign(SESSION, claims, seconds=60)


def for_another_audience(session: str, keys: SigningKeys) -> str:
    return keys.sign("clusterra-login", keys.verify(SESSION, session, Claims), seconds=60)


def without_signature(session: str, _keys: SigningKeys) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{header}.{session.split('.')[1]}."


def truncated(session: str, _keys: SigningKeys) -> str:
    return session[:-2]


@pytest.mark.parametrize(
    "forge", [expired_a_minute_ago, signed_with_another_key, for_another_audience, without_signature, truncated]
)
async def test_forged_and_expired_sessions_are_rejected(world: World, forge: Callable[[str, SigningKeys], str]) -> None:
    browser = await world.login("ada@acme.example")
    session = cookie_of(browser)
    forged = forge(session, SigningKeys.load(world.settings.session_key_file))
    other = await world.browser()

    async with other.get("/v1/users/me", cookies={COOKIE: forged}) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    async with other.get("/v1/users/me", headers={"Authorization": f"Bearer {forged}"}) as answer:
        assert answer.status == 401
    async with other.get("/v1/users/me", headers={"Authorization": f"Bearer {session}"}) as answer:
        assert answer.status == 200


def test_a_missing_or_invalid_session_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyMissing, match="CLUSTERRA_SESSION_KEY_FILE"):
        SigningKeys.load(None)
    with pytest.raises(SigningKeyMissing, match="cannot be read"):
        SigningKeys.load(tmp_path / "none")
    for content in (b"short", b"{}", b'{"keys": []}', b'{"kty": "oct", "k": "c2hvcnQ"}', b"{broken"):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(SigningKeyMissing) as rejected:
            SigningKeys.load(tmp_path / "key")
        assert "c2hvcnQ" not in str(rejected.value)


def test_a_session_key_can_be_rotated(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    old, new = OctKey.generate_key(256), OKPKey.generate_key("Ed25519")
    claims = Claims(sub="a-member", jti="1", iat=int(time.time()), exp=int(time.time()) + 60)

    def loaded(*keys: OctKey | OKPKey) -> SigningKeys:
        file.write_text(key_set_json(*keys))
        return SigningKeys.load(file)

    before = loaded(old).sign(SESSION, claims, seconds=60)
    after = loaded(new, old)

    assert after.verify(SESSION, before, Claims) == claims
    assert loaded(new).verify(SESSION, after.sign(SESSION, claims, seconds=60), Claims) == claims


def key_set_json(*keys: OctKey | OKPKey) -> str:
    return json.dumps(KeySet(list(keys)).as_dict(private=True))


@pytest.mark.parametrize("address", ["http://issuer.example", "ftp://127.0.0.1", "issuer.example"])
def test_addresses_without_tls_are_only_allowed_on_this_machine(settings: Settings, address: str) -> None:
    given = settings.model_dump()
    for name in ("oidc_issuer", "public_url"):
        with pytest.raises(ValidationError, match="https://"):
            Settings.model_validate(given | {name: address})
