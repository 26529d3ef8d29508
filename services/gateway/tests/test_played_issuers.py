"""Sign-ins played whole, in a browser, at running issuers that behave as Google, Okta and Entra ID do."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_gateway.accounts.keyspace import ACCOUNTS, USER_NAMES, domain_key, tenant_key
from clusterra_gateway.accounts.records import OPERATOR, Domain, UserNameReservation
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.issuer_behaviour import DIRECTORY, entra, google, okta
from clusterra_lab.parts.issuers import PlayedIssuer, played_issuers
from clusterra_lab.parts.nats import NatsServer
from clusterra_lab.parts.oidc import Person
from clusterra_runtime.store.store import Update
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from yarl import URL

FOREIGN_DIRECTORY = "11111111-2222-3333-4444-555555555555"
ADA = Person(subject="ada", email="ada@acme.example", name="Ada Lovelace")
MALLORY = Person(subject="mallory", email="mallory@elsewhere.example", name="Mallory")
VICTIM = "boss@acme.example"
KINDS = {"google": "google", "okta": "oidc", "entra": "entra"}
BEHAVIOURS = {
    # A private account at Google, to which somebody added an address of acme that was theirs once.
    "google": google({"mallory": {"email": VICTIM, "hd": None}}),
    "okta": okta({"mallory": {"email": VICTIM, "email_verified": False}}),
    # The administrator of another directory wrote the address of a person of acme.
    "entra": entra({"mallory": {"preferred_username": VICTIM, "email": VICTIM, "tid": FOREIGN_DIRECTORY}}),
}

type Json = dict[str, Any]
type Played = dict[str, PlayedIssuer]


@asynccontextmanager
async def all_three(directory: Path, port: int) -> AsyncIterator[Played]:
    callbacks = {name: f"http://127.0.0.1:{port}/v1/auth/callback/{name}" for name in BEHAVIOURS}
    async with played_issuers(directory, BEHAVIOURS, [ADA, MALLORY], callbacks) as issuers:
        yield issuers


@asynccontextmanager
async def gateway(
    nats: NatsServer, default: IssuerStandIn, folder: Path, port: int, played: Played
) -> AsyncIterator[World]:
    """A gateway that serves the three beside its default issuer."""
    (folder / "session.key").write_bytes(secrets.token_bytes(48))
    given = [
        {
            "name": name,
            "issuer": each.issuer,
            "kind": KINDS[name],
            "client_id": each.given.client_id,
            "client_secret": f"file:{each.given.client_secret_file}",
        }
        for name, each in played.items()
    ]
    (folder / "issuers.yaml").write_text(yaml.safe_dump({"issuers": given}))
    settings = Settings(
        nats_url=nats.url,
        http_port=port,
        public_url=f"http://127.0.0.1:{port}",
        oidc_issuer=default.address,
        oidc_client_id="clusterra",
        session_key_file=folder / "session.key",
        issuers_file=folder / "issuers.yaml",
    )
    async with running(settings, default) as world:
        yield world


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory, port: int) -> AsyncIterator[Played]:
    async with all_three(tmp_path_factory.mktemp("issuers"), port) as issuers:
        yield issuers


@pytest.fixture
async def world(
    nats: NatsServer, issuer: IssuerStandIn, tmp_path: Path, port: int, played: Played
) -> AsyncIterator[World]:
    async with gateway(nats, issuer, tmp_path, port, played) as world:
        yield world


def vouching(played: Played, name: str) -> str:
    """The issuer in id_tokens: at Entra ID, that of the directory."""
    return f"{played[name].given.address}/{DIRECTORY}/v2.0" if name == "entra" else played[name].issuer


async def bind(world: World, domain: str, *issuers: str) -> None:
    record = Domain(tenant="acme", issuers=issuers).attributes()
    await world.store.write(Update(ACCOUNTS, domain_key(domain), set=record))


async def signed_in(world: World, issuer: PlayedIssuer, query: str, person: Person = ADA) -> tuple[int, Json]:
    """Play the browser: the status of the sign-in, and the profile or the problem."""
    browser = await world.browser()
    async with browser.get(f"/v1/auth/login?{query}", allow_redirects=False) as answer:
        if answer.status != 302:
            return answer.status, await answer.json()
        authorize = answer.headers["Location"]
    back = await issuer.log_in(authorize, person.email)
    async with browser.get(URL(back, encoded=True), allow_redirects=False) as answer:
        if answer.status != 303:
            return answer.status, await answer.json()
    async with browser.get("/v1/users/me") as answer:
        return 303, await answer.json()


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_a_person_signs_in_and_comes_again(world: World, played: Played, name: str) -> None:
    await bind(world, "acme.example", vouching(played, name))

    status, me = await signed_in(world, played[name], f"issuer={name}")
    again = await signed_in(world, played[name], "domain=acme.example")

    assert status == 303, me
    assert (me["email"], me["display_name"], me["tenant"]["id"]) == (ADA.email, ADA.name, "acme")
    assert again[1]["uid"] == me["uid"]


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_none_asserts_addresses_of_a_domain_that_is_bound_to_the_others(
    world: World, played: Played, name: str
) -> None:
    others = [vouching(played, other) for other in BEHAVIOURS if other != name]
    await bind(world, "acme.example", world.issuer.address, *others)

    status, problem = await signed_in(world, played[name], f"issuer={name}")

    assert status == 403
    assert "may not vouch" in problem["detail"] or "not verified" in problem["detail"]
    assert await _people(world) == []


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_nobody_gets_an_address_that_their_account_only_claims(world: World, played: Played, name: str) -> None:
    """The issuer is that of the domain; the account is a private one, an unverified one, or of another directory."""
    await bind(world, "acme.example", vouching(played, name))

    assert (await signed_in(world, played[name], f"issuer={name}", MALLORY))[0] == 403
    assert await _people(world) == []
    assert (await signed_in(world, played[name], f"issuer={name}"))[0] == 303


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_sign_ins_go_on_after_the_keys_were_rotated(
    world: World, played: Played, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.issuers.issuer_documents.KEYS_REFETCH_SECONDS", 0.0)
    await bind(world, "acme.example", vouching(played, name))
    assert (await signed_in(world, played[name], f"issuer={name}"))[0] == 303

    for _ in range(played[name].given.behaviour.keys + 1):
        played[name].rotate_keys()
        assert (await signed_in(world, played[name], f"issuer={name}"))[0] == 303


async def test_an_issuer_that_is_down_stops_nobody_else(
    nats: NatsServer, issuer: IssuerStandIn, tmp_path: Path
) -> None:
    port = free_port()
    async with (
        all_three(tmp_path, port) as played,
        gateway(nats, issuer, tmp_path, port, played) as world,
    ):
        await bind(world, "acme.example", *(vouching(played, name) for name in BEHAVIOURS))
        await played["google"].kill()  # before it was ever asked

        assert (await signed_in(world, played["google"], "issuer=google"))[0] == 503
        assert (await signed_in(world, played["okta"], "issuer=okta"))[0] == 303

        browser = await world.browser()
        async with browser.get("/v1/auth/login?issuer=okta", allow_redirects=False) as answer:
            back = await played["okta"].log_in(answer.headers["Location"], ADA.email)
        await played["okta"].kill()  # while somebody signs in there

        async with browser.get(URL(back, encoded=True), allow_redirects=False) as answer:
            assert answer.status == 503
        assert (await signed_in(world, played["entra"], "issuer=entra"))[0] == 303


async def _people(world: World) -> list[str]:
    """The user names of acme that somebody has."""
    page = await world.store.query(ACCOUNTS, tenant_key("acme").pk, sort=USER_NAMES, limit=10)
    return [item.key.sk for item in page.items if UserNameReservation.of(item).owner != OPERATOR]
