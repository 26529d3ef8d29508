"""One gateway with several issuers, which behave as Okta, Google and Entra ID do: each vouches for its own people."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key
from clusterra_gateway.accounts.records import Domain
from clusterra_gateway.identity.issuers.configuration import configured_issuers
from clusterra_gateway.settings import Settings, SettingsFileInvalid
from clusterra_runtime.store.store import Update
from gateway_world import World, authorized, running
from issuer_stand_in import CLIENT_ID, CLIENT_SECRET, IssuerStandIn, issuer_stand_in

DIRECTORY = "72f988bf-86f1-41af-91ab-2d7cd011db47"
FOREIGN_DIRECTORY = "11111111-2222-3333-4444-555555555555"

LOGIN = "/v1/auth/login"

type Json = dict[str, Any]


class Several:
    """The stand-ins beside the default issuer, and a gateway that serves them all."""

    def __init__(self, okta: IssuerStandIn, google: IssuerStandIn, entra: IssuerStandIn) -> None:
        self.okta, self.google, self.entra = okta, google, entra
        self.directory = DIRECTORY
        self.hosted_domain: str | None = "acme.example"
        # Okta: an authorization server has a path, it names the application in `azp`, and tells the rest in UserInfo.
        okta.discovered = {"issuer": self.okta_issuer, "authorization_response_iss_parameter_supported": "false"}
        okta.tamper = self._as_okta
        okta.email_in_user_info_only = True
        google.tamper = self._as_google
        # Entra ID: one address for several directories, which name themselves in each token.
        entra.discovered = {"issuer": f"{entra.address}/{{tenantid}}/v2.0"}
        entra.email_verified, entra.email_claim = None, "preferred_username"
        entra.tamper = self._as_entra

    @property
    def okta_issuer(self) -> str:
        return f"{self.okta.address}/oauth2/default"

    def entra_issuer(self, directory: str = DIRECTORY) -> str:
        return f"{self.entra.address}/{directory}/v2.0"

    def _as_okta(self, _header: Json, claims: Json) -> None:
        claims |= {"iss": self.okta_issuer, "aud": [CLIENT_ID, "api://other"], "azp": CLIENT_ID}

    def _as_google(self, _header: Json, claims: Json) -> None:
        claims |= {"azp": CLIENT_ID} | ({} if self.hosted_domain is None else {"hd": self.hosted_domain})

    def _as_entra(self, _header: Json, claims: Json) -> None:
        claims |= {"iss": self.entra_issuer(self.directory), "tid": self.directory, "ver": "2.0"}


@pytest.fixture
async def several() -> AsyncIterator[Several]:
    async with issuer_stand_in() as okta, issuer_stand_in() as google, issuer_stand_in() as entra:
        yield Several(okta, google, entra)


@pytest.fixture
def settings(settings: Settings, several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CLUSTERRA_SECRET_OKTA", CLIENT_SECRET)
    client = {"client_id": CLIENT_ID, "client_secret": f"file:{settings.oidc_client_secret_file}"}
    issuers = [
        {"name": "okta", "issuer": several.okta_issuer, **client, "client_secret": "env:CLUSTERRA_SECRET_OKTA"},
        {"name": "google", "issuer": several.google.address, "kind": "google", **client},
        {"name": "entra", "issuer": f"{several.entra.address}/common/v2.0", "kind": "entra", **client},
    ]
    (tmp_path / "issuers.yaml").write_text(yaml.safe_dump({"issuers": issuers}))
    return settings.model_copy(update={"issuers_file": tmp_path / "issuers.yaml"})


@pytest.fixture
async def world(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    async with running(settings, issuer) as world:
        yield world


async def bind(world: World, tenant: str, *issuers: str) -> None:
    domain = Domain(tenant=tenant, issuers=issuers).attributes()
    await world.store.write(Update(ACCOUNTS, domain_key(f"{tenant}.example"), set=domain))


async def signed_in(world: World, query: str, email: str) -> tuple[int, Json]:
    """The status of a sign-in, and the profile or the problem."""
    browser = await world.browser()
    back = await authorized(browser, email, f"{LOGIN}?{query}")
    async with browser.get(back, allow_redirects=False) as answer:
        if answer.status != 303:
            return answer.status, await answer.json()
    async with browser.get("/v1/users/me") as answer:
        return 303, await answer.json()


async def test_people_sign_in_at_each_of_the_issuers_of_their_domain(world: World, several: Several) -> None:
    await bind(world, "acme", several.okta_issuer, several.google.address, several.entra_issuer())

    for name in ("okta", "google", "entra"):
        status, me = await signed_in(world, f"issuer={name}", f"{name}-user@acme.example")
        assert (status, me["email"], me["tenant"]["id"]) == (303, f"{name}-user@acme.example", "acme")
    assert (await signed_in(world, "", "chief@rival.example"))[1]["tenant"]["id"] == "rival"


async def test_the_issuers_are_listed_and_an_unknown_one_is_told(world: World, several: Several) -> None:
    browser = await world.browser()
    async with browser.get("/v1/auth/issuers") as answer:
        served = {each["name"]: each for each in (await answer.json())["issuers"]}
    assert [name for name in served if served[name]["default"]] == ["default"]
    assert served["entra"] == {
        "name": "entra",
        "issuer": f"{several.entra.address}/common/v2.0",
        "kind": "entra",
        "default": False,
    }
    async with browser.get("/v1/auth/login?issuer=none", allow_redirects=False) as answer:
        assert answer.status == 404


async def test_a_domain_leads_to_its_issuer(world: World, several: Several) -> None:
    await bind(world, "acme", several.entra_issuer())
    await bind(world, "rival", "https://not-served.example")
    browser = await world.browser()

    for domain, issuer in (("ACME.example", several.entra), ("elsewhere.example", world.issuer)):
        async with browser.get(f"/v1/auth/login?domain={domain}", allow_redirects=False) as answer:
            assert answer.status == 302
            assert answer.headers["Location"].startswith(f"{issuer.address}/authorize?")
    async with browser.get("/v1/auth/login?domain=rival.example", allow_redirects=False) as answer:
        assert answer.status == 404


async def test_an_invitation_leads_to_the_issuer_of_its_address(world: World, several: Several) -> None:
    await bind(world, "rival", several.okta_issuer)
    boss, invited = await world.login("boss@acme.example"), await world.browser()
    async with boss.post("/v1/invitations", json={"email": "eve@rival.example"}) as answer:
        token = (await answer.json())["token"]

    async with invited.post("/v1/auth/login", json={"token": token}) as answer:
        authorize = (await answer.json())["location"]
    assert authorize.startswith(f"{several.okta.address}/authorize?")

    async with invited.get(f"{authorize}&login_hint=eve@rival.example", allow_redirects=False) as answer:
        back = answer.headers["Location"]
    async with invited.get(back, allow_redirects=False) as answer:
        assert answer.status == 303
    async with invited.get("/v1/users/me") as answer:
        assert (await answer.json())["tenant"]["id"] == "acme"


@pytest.mark.parametrize("name", ["okta", "google", "entra"])
async def test_no_issuer_asserts_addresses_of_a_domain_that_is_not_bound_to_it(world: World, name: str) -> None:
    await bind(world, "acme", world.issuer.address)

    for email in ("boss@acme.example", "chief@rival.example"):
        assert (await signed_in(world, f"issuer={name}", email))[0] == 403


async def test_one_subject_at_two_issuers_is_two_people(world: World, several: Several) -> None:
    await bind(world, "acme", several.okta_issuer, several.google.address)

    _, first = await signed_in(world, "issuer=okta", "ada@acme.example")
    _, second = await signed_in(world, "issuer=google", "ada@acme.example")

    assert first["email"] == second["email"]
    assert first["uid"] != second["uid"]
    assert first["name"] != second["name"]


async def test_another_directory_of_entra_is_another_issuer(world: World, several: Several) -> None:
    await bind(world, "acme", several.entra_issuer())
    several.directory = FOREIGN_DIRECTORY

    assert (await signed_in(world, "issuer=entra", "boss@acme.example"))[0] == 403

    for wrong in ("not-a-directory", f"{DIRECTORY}/x", DIRECTORY + "\n"):
        several.directory = wrong
        assert (await signed_in(world, "issuer=entra", "boss@acme.example"))[0] == 401


async def test_a_directory_must_be_the_one_of_the_issuer(world: World, several: Several) -> None:
    await bind(world, "acme", several.entra_issuer())

    def lie(_header: Json, claims: Json) -> None:
        claims |= {"iss": several.entra_issuer(), "tid": FOREIGN_DIRECTORY}

    several.entra.tamper = lie

    assert (await signed_in(world, "issuer=entra", "boss@acme.example"))[0] == 401


async def test_google_vouches_for_its_workspaces_and_its_own_mail_alone(world: World, several: Several) -> None:
    await bind(world, "acme", several.google.address)
    several.hosted_domain = None

    assert (await signed_in(world, "issuer=google", "boss@acme.example"))[0] == 403


@pytest.mark.parametrize("victim", ["okta", "google", "entra", ""])
async def test_the_answer_of_one_issuer_passes_for_no_other(world: World, several: Several, victim: str) -> None:
    """RFC 9700, 4.4: a login that began at one issuer is answered with a code of another."""
    await bind(world, "acme", several.okta_issuer, several.google.address, several.entra_issuer())
    attacker = "google" if victim != "google" else "okta"
    browser = await world.browser()
    theirs = await authorized(browser, begin=f"{LOGIN}?issuer={victim}" if victim else LOGIN)
    mine = await authorized(browser, begin=f"{LOGIN}?issuer={attacker}")
    state, code = mine.query["state"], theirs.query["code"]

    for mixed in (
        theirs.with_query(code=code, state=state),
        mine.with_query(code=code, state=state),
        theirs.with_query(code=mine.query["code"], state=state),
    ):
        async with browser.get(mixed, allow_redirects=False) as answer:
            assert answer.status == 401, mixed.path


async def test_a_key_of_one_issuer_signs_for_no_other(world: World, several: Several) -> None:
    await bind(world, "acme", several.okta_issuer, several.google.address)
    several.google.key = several.google.key.generate_key(2048, {"kid": "of-google"}, private=True)
    several.google.published = [several.google.key]
    several.okta.key = several.google.key

    assert (await signed_in(world, "issuer=okta", "ada@acme.example"))[0] == 401
    assert (await signed_in(world, "issuer=google", "ada@acme.example"))[0] == 303


async def test_an_issuer_that_names_itself_must_do_so(world: World, several: Several) -> None:
    await bind(world, "acme", several.google.address)
    several.google.discovered = {"authorization_response_iss_parameter_supported": "true"}
    browser = await world.browser()
    back = await authorized(browser, begin=f"{LOGIN}?issuer=google")

    for status, answered in ((401, back), (303, back.update_query(iss=several.google.address))):
        async with browser.get(answered, allow_redirects=False) as answer:
            assert answer.status == status


async def test_while_one_issuer_fails_people_sign_in_at_the_others(world: World, several: Several) -> None:
    await bind(world, "acme", several.okta_issuer, several.google.address)
    several.google.fails = True
    browser = await world.browser()

    async with browser.get("/v1/auth/login?issuer=google", allow_redirects=False) as answer:
        assert answer.status == 503
    assert (await signed_in(world, "issuer=okta", "ada@acme.example"))[0] == 303


async def test_a_secret_that_is_gone_is_an_outage_of_its_issuer_alone(
    world: World, several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bind(world, "acme", several.okta_issuer, several.google.address)
    monkeypatch.delenv("CLUSTERRA_SECRET_OKTA")

    assert (await signed_in(world, "issuer=okta", "ada@acme.example"))[0] == 503
    assert (await signed_in(world, "issuer=google", "ada@acme.example"))[0] == 303


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("issuers: [", "not valid YAML"),
        ("issuers: [{name: okta}]", "issuers.0.issuer: Field required"),
        ("issuers: [{name: a, issuer: 'http://evil.example', client_id: c}]", "https://"),
        ("issuers: [{name: default, issuer: 'https://a.example', client_id: c}]", "default"),
        ("issuers: [{name: a, issuer: 'https://issuer.example', client_id: c}]", "https://issuer.example"),
        ("issuers: [{name: a, issuer: 'https://a.example', client_id: c, client_secret: hunter2}]", "must be one of"),
    ],
)
def test_a_file_that_cannot_be_used_names_what_is_wrong(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "issuers.yaml").write_text(content)
    settings = Settings(
        oidc_issuer="https://issuer.example", oidc_client_id="clusterra", issuers_file=tmp_path / "issuers.yaml"
    )

    with pytest.raises(SettingsFileInvalid, match=r"issuers\.yaml") as caught:
        configured_issuers(settings)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
