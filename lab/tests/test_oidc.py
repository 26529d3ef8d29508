"""A real OIDC provider: the whole code flow with PKCE, and the requests that it must reject."""

import base64
import hashlib
import json
import secrets
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_lab.parts.login import LoginRejected, log_in
from clusterra_lab.parts.oidc import Oidc, Person, oidc_provider
from joserfc import jwt
from joserfc.jwk import KeySet
from yarl import URL

CALLBACK = "http://127.0.0.1:8080/v1/auth/callback"
ADA = Person(subject="ada", email="ada@acme.example", name="Ada Lovelace")
GRACE = Person(subject="grace", email="grace@acme.example", name="Grace Hopper")


@pytest.fixture(scope="module")
async def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oidc")


@pytest.fixture(scope="module")
async def oidc(directory: Path) -> AsyncIterator[Oidc]:
    async with oidc_provider(directory, redirect_uris=[CALLBACK], people=[ADA, GRACE]) as oidc:
        yield oidc


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


async def discovered(http: aiohttp.ClientSession, oidc: Oidc) -> dict[str, Any]:
    async with http.get(f"{oidc.issuer}/.well-known/openid-configuration") as answer:
        document: dict[str, Any] = await answer.json()
        return document


class Flow:
    """One authorisation of the confidential client."""

    def __init__(self, oidc: Oidc, endpoints: dict[str, Any], **changed: str) -> None:
        self.oidc = oidc
        self.endpoints = endpoints
        self.verifier = secrets.token_urlsafe(48)
        self.query = {
            "response_type": "code",
            "client_id": oidc.client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid email profile",
            "state": secrets.token_urlsafe(),
            "nonce": secrets.token_urlsafe(),
            "code_challenge_method": "S256",
            "code_challenge": challenge(self.verifier),
            **changed,
        }

    @property
    def url(self) -> str:
        query = {name: value for name, value in self.query.items() if value}
        return str(URL(self.endpoints["authorization_endpoint"]).update_query(query))

    async def redeem(
        self, http: aiohttp.ClientSession, callback: str, *, verifier: str | None = None, secret: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        assert self.oidc.client_secret_file
        secret = secret or self.oidc.client_secret_file.read_text()
        form = {
            "grant_type": "authorization_code",
            "code": URL(callback).query["code"],
            "redirect_uri": CALLBACK,
            "code_verifier": verifier or self.verifier,
        }
        basic = {"Authorization": aiohttp.encode_basic_auth(self.oidc.client_id, secret)}
        async with http.post(self.endpoints["token_endpoint"], data=form, headers=basic) as answer:
            return answer.status, await answer.json()


def challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True)
class Login:
    """One person's login with the code flow and PKCE, up to the answer of the token endpoint."""

    person: Person
    flow: Flow
    callback: URL
    status: int
    tokens: dict[str, Any]


@pytest.fixture(scope="module", params=[ADA, GRACE], ids=lambda person: person.subject)
async def login(oidc: Oidc, request: pytest.FixtureRequest) -> Login:
    person: Person = request.param
    async with aiohttp.ClientSession() as http:
        flow = Flow(oidc, await discovered(http, oidc))
        callback = await oidc.log_in(flow.url, person.email)
        status, tokens = await flow.redeem(http, callback)
        return Login(person, flow, URL(callback), status, tokens)


async def test_the_discovery_document_names_the_issuer_and_pkce(oidc: Oidc, http: aiohttp.ClientSession) -> None:
    endpoints = await discovered(http, oidc)

    assert endpoints["issuer"] == oidc.issuer
    assert endpoints["code_challenge_methods_supported"] == ["S256"]


def test_a_login_leads_back_with_the_state_of_its_request(login: Login) -> None:
    assert str(login.callback.with_query(None)) == CALLBACK
    assert login.callback.query["state"] == login.flow.query["state"]


async def test_a_code_gives_a_signed_token_that_names_the_person(
    oidc: Oidc, http: aiohttp.ClientSession, login: Login
) -> None:
    async with http.get(login.flow.endpoints["jwks_uri"]) as answer:
        keys = KeySet.import_key_set(await answer.json())
    claims = jwt.decode(login.tokens["id_token"], keys, algorithms=["RS256"]).claims

    assert login.status == 200
    assert (claims["iss"], claims["aud"], claims["sub"]) == (oidc.issuer, oidc.client_id, login.person.subject)
    assert claims["nonce"] == login.flow.query["nonce"]


async def test_the_access_token_gives_the_persons_verified_address(http: aiohttp.ClientSession, login: Login) -> None:
    bearer = {"Authorization": f"Bearer {login.tokens['access_token']}"}

    async with http.get(login.flow.endpoints["userinfo_endpoint"], headers=bearer) as answer:
        info = await answer.json()

    assert (info["sub"], info["email"], info["email_verified"]) == (login.person.subject, login.person.email, True)


async def test_an_id_token_has_the_requested_claims(oidc: Oidc, http: aiohttp.ClientSession) -> None:
    wanted = json.dumps({"id_token": {"email": None, "name": None}})
    flow = Flow(oidc, await discovered(http, oidc), claims=wanted)
    _, tokens = await flow.redeem(http, await oidc.log_in(flow.url, ADA.email))
    payload = tokens["id_token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert (claims["email"], claims["name"]) == (ADA.email, ADA.name)


async def test_a_code_with_a_wrong_verifier_is_rejected(oidc: Oidc, http: aiohttp.ClientSession) -> None:
    flow = Flow(oidc, await discovered(http, oidc))
    callback = await oidc.log_in(flow.url, ADA.email)
    status, problem = await flow.redeem(http, callback, verifier=secrets.token_urlsafe(48))
    assert (status, problem["error"]) == (400, "invalid_grant")


async def test_a_code_with_a_wrong_client_secret_or_used_twice_is_rejected(
    oidc: Oidc, http: aiohttp.ClientSession
) -> None:
    flow = Flow(oidc, await discovered(http, oidc))
    callback = await oidc.log_in(flow.url, ADA.email)

    status, problem = await flow.redeem(http, callback, secret="guessed")

    assert (status, problem["error"]) == (401, "invalid_client")

    flow = Flow(oidc, await discovered(http, oidc))
    callback = await oidc.log_in(flow.url, ADA.email)

    assert (await flow.redeem(http, callback))[0] == 200

    status, problem = await flow.redeem(http, callback)

    assert (status, problem["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "http://127.0.0.1:8080/elsewhere"},
        {"redirect_uri": "http://evil.example/v1/auth/callback"},
        {"client_id": "stranger"},
    ],
)
async def test_an_unknown_client_or_redirect_uri_gets_no_code(
    oidc: Oidc, http: aiohttp.ClientSession, changed: dict[str, str]
) -> None:
    flow = Flow(oidc, await discovered(http, oidc), **changed)
    with pytest.raises(LoginRejected, match="rejected the authorisation request with HTTP 400"):
        await oidc.log_in(flow.url, ADA.email)


async def test_a_request_without_pkce_s256_is_redirected_with_an_error(oidc: Oidc, http: aiohttp.ClientSession) -> None:
    for changed in ({"code_challenge": "", "code_challenge_method": ""}, {"code_challenge_method": "plain"}):
        flow = Flow(oidc, await discovered(http, oidc), **changed)
        answer = URL(await oidc.log_in(flow.url, ADA.email)).query
        assert answer["error"] == "invalid_request"
        assert "code" not in answer


async def test_a_wrong_password_or_an_unknown_person_cannot_log_in(oidc: Oidc, http: aiohttp.ClientSession) -> None:
    flow = Flow(oidc, await discovered(http, oidc))
    with pytest.raises(LoginRejected, match="rejected the login of ada"):
        await log_in(flow.url, "ada", "guessed")
    with pytest.raises(LoginRejected, match=r"has no password of eve@acme\.example"):
        await oidc.log_in(flow.url, "eve@acme.example")


async def test_secrets_are_readable_only_by_their_owner(oidc: Oidc, directory: Path) -> None:
    assert oidc.client_secret_file

    known = [login.password_file.read_text() for login in oidc.logins.values()]
    known.append(oidc.client_secret_file.read_text())
    files = [path for path in directory.rglob("*") if path.is_file()]

    holding = {path for path in files if any(secret in path.read_text() for secret in known)}

    assert {path.name for path in holding} == {"ada", "grace", "client-secret", "settings.yaml", "users.yaml"}

    private_keys = {path for path in files if "PRIVATE KEY" in path.read_text()}

    assert private_keys
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding | private_keys} == {0o600}
    assert not any(secret in repr(oidc) or secret in "".join(oidc.environment().values()) for secret in known)


async def test_an_issuer_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logins = tmp_path / "logins.json"
    logins.write_text(json.dumps([{**ADA.model_dump(), "password_file": "/run/ada"}]))
    given = {
        "CLUSTERRA_OIDC_ISSUER": "https://login.example",
        "CLUSTERRA_OIDC_CLIENT_ID": "ours",
        "CLUSTERRA_OIDC_CLIENT_SECRET_FILE": "/run/secret",
    }
    for name, value in {**given, "CLUSTERRA_OIDC_LOGINS_FILE": str(logins)}.items():
        monkeypatch.setenv(name, value)

    async with oidc_provider(tmp_path / "unused", redirect_uris=[], people=[]) as oidc:
        assert oidc.environment() == given
        assert oidc.logins[ADA.email].subject == "ada"

    assert not (tmp_path / "unused").exists()
