"""Bus credentials: who may make, renew and revoke them, and that none is handed out that a revocation missed.

The authority is a stand-in on a real NATS; admin/tests/test_authority.py has the real one, at a server with accounts.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.rpc.bus_logins import MAX_BUS_CREDENTIALS, BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done
from clusterra_gateway.accounts.keyspace import ACCOUNTS, bus_credential_key
from clusterra_gateway.bus_credentials import records
from clusterra_gateway.bus_credentials.models import BusCredential
from clusterra_runtime.nats.rpc import serve_tenant
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, Update
from gateway_world import World
from people_world import program

PATH = "/v1/bus-credentials"


@dataclass
class AuthorityStandIn:
    """What it was asked for."""

    signed: list[SignBusLogin] = field(default_factory=list)
    revoked: list[RevokeBusLogins] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def sign(self, ref: TenantRef, request: SignBusLogin) -> BusLogin:
        self.signed.append(request)
        if self.meanwhile is not None:
            await self.meanwhile()
        expires_at = now() + timedelta(seconds=request.lifetime_seconds)
        return BusLogin(jwt="signed", account="A" * 56, subject=f"event.{ref.tenant}.>", expires_at=expires_at)

    async def revoke(self, _ref: TenantRef, request: RevokeBusLogins) -> Done:
        self.revoked.append(request)
        return Done()


@pytest.fixture
async def authority(world: World) -> AsyncIterator[AuthorityStandIn]:
    stand_in = AuthorityStandIn()
    served = [
        await serve_tenant(world.client, "bus-login.acme", SignBusLogin, stand_in.sign),
        await serve_tenant(world.client, "bus-revocation.acme", RevokeBusLogins, stand_in.revoke),
    ]
    yield stand_in
    boss = await world.login("boss@acme.example")
    for each in (await call(boss, "GET"))[1]["bus_credentials"]:
        assert (await call(boss, "DELETE", f"/{each['id']}"))[0] == 204
    for each in served:
        await each.unsubscribe()


def key(number: int = 0) -> str:
    return f"U{'A' * 53}{chr(ord('A') + number // 26)}{chr(ord('A') + number % 26)}"


async def call(browser: aiohttp.ClientSession, method: str, path: str = "", content: object = None) -> tuple[int, Any]:
    async with browser.request(method, f"{PATH}{path}", json=content) as answer:
        return answer.status, None if answer.status == 204 else await answer.json()


async def made(browser: aiohttp.ClientSession, **fields: Any) -> dict[str, Any]:
    status, answer = await call(browser, "POST", "", {"name": "billing", "public_key": key()} | fields)
    assert status == 201, answer
    credential: dict[str, Any] = answer
    return credential


async def test_a_credential_from_its_creation_to_its_end(world: World, authority: AuthorityStandIn) -> None:
    boss = await world.login("boss@acme.example")

    new = await made(boss, cluster_id="main", lifetime_seconds=3600)
    status, renewed = await call(boss, "POST", f"/{new['id']}/renew", {})
    listed = await call(boss, "GET")
    revoked = await call(boss, "DELETE", f"/{new['id']}")

    assert (new["jwt"], new["subject"], new["cluster_id"]) == ("signed", "event.acme.main.>", "main")
    assert status == 200
    assert renewed["expires_at"] > new["expires_at"]
    (shown,) = listed[1]["bus_credentials"]
    assert shown["expires_at"] == renewed["expires_at"]
    assert "jwt" not in shown
    assert [each.lifetime_seconds for each in authority.signed] == [3600, 86_400]
    assert revoked == (204, None)
    assert [each.public_keys for each in authority.revoked] == [(key(),)]
    assert (await call(boss, "POST", f"/{new['id']}/renew", {}))[0] == 404
    assert (await call(boss, "DELETE", f"/{new['id']}"))[0] == 404
    assert len(authority.signed) == 2


async def test_a_login_that_is_signed_while_its_credential_is_revoked_is_handed_to_nobody(
    world: World, authority: AuthorityStandIn
) -> None:
    boss = await world.login("boss@acme.example")
    new = await made(boss)

    async def revoked() -> None:
        assert (await call(boss, "DELETE", f"/{new['id']}"))[0] == 204

    authority.meanwhile = revoked
    status, answer = await call(boss, "POST", f"/{new['id']}/renew", {})

    assert status in (404, 409), answer
    assert "jwt" not in answer


async def test_what_is_wrong_is_refused(world: World, authority: AuthorityStandIn) -> None:
    boss = await world.login("boss@acme.example")

    for wrong in (
        {"public_key": "SUAAA"},
        {"public_key": "A" * 56},
        {"public_key": key().lower()},
        {"cluster_id": "elsewhere"},
        {"cluster_id": "main.>"},
        {"cluster_id": "*"},
        {"lifetime_seconds": 7 * 86_400 + 1},
        {"lifetime_seconds": 0},
        {"name": ""},
        {"permissions": [">"]},
    ):
        status, answer = await call(boss, "POST", "", {"name": "x", "public_key": key()} | wrong)
        assert status in (400, 422), (wrong, answer)
    assert not authority.signed

    await made(boss)
    assert (await call(boss, "POST", "", {"name": "again", "public_key": key()}))[0] == 409


async def test_a_workspace_has_a_bounded_number(world: World, authority: AuthorityStandIn) -> None:
    boss = await world.login("boss@acme.example")
    for number in range(MAX_BUS_CREDENTIALS):
        await made(boss, public_key=key(number))

    status, answer = await call(boss, "POST", "", {"name": "one more", "public_key": key(MAX_BUS_CREDENTIALS)})

    assert (status, len(authority.signed)) == (409, MAX_BUS_CREDENTIALS), answer


async def test_a_workspace_revokes_a_bounded_number_in_a_week(
    world: World, authority: AuthorityStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_REVOKED", 40)
    boss = await world.login("boss@acme.example")

    statuses = list[int]()
    for number in range(60):
        status, answer = await call(boss, "POST", "", {"name": "x", "public_key": key(number)})
        statuses.append(status)
        if status != 201:
            break
        assert (await call(boss, "DELETE", f"/{answer['id']}"))[0] == 204

    assert statuses[-1] == 409
    assert len(statuses) <= 41


@dataclass
class RenewedMeanwhile:
    """An authority, and an admin who renews a credential after its logins were revoked."""

    store: MemoryStore
    credential: BusCredential
    revoked: int = 0

    async def revoke(self, _tenant: str, *_public_keys: str) -> None:
        self.revoked += 1
        if self.revoked == 1:
            changed = {"credential": self.credential.model_dump_json()}
            await self.store.write(Update(ACCOUNTS, bus_credential_key("acme", self.credential.id), set=changed))

    revoke_all = revoke


@pytest.mark.parametrize("what", ["cluster", "tenant"])
async def test_a_login_that_is_renewed_during_a_deletion_is_revoked_too(what: str) -> None:
    at = now()
    credential = BusCredential(
        id=f"bc_{'0' * 16}",
        name="billing",
        public_key=key(),
        cluster="main",
        created_by="boss",
        created_at=at,
        renewed_at=at,
        expires_at=at,
    )
    async with MemoryStore() as store:
        await store.create_tables(ACCOUNTS)
        kept = {"credential": credential.model_dump_json()}
        await store.write(Put(ACCOUNTS, bus_credential_key("acme", credential.id), dict(kept), Absent()))
        logins: Any = RenewedMeanwhile(store, credential)

        if what == "tenant":
            await records.cut_tenant(store, logins, "acme")
        else:
            while await records.forget_cluster(store, logins, ClusterRef(tenant="acme", cluster="main")):
                pass

        assert logins.revoked == 2
        assert await records.stored_credentials(store, "acme") == []


async def test_admins_alone_and_tokens_with_the_scope(world: World, authority: AuthorityStandIn) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    assert (await call(ada, "GET"))[0] == 403
    assert (await call(ada, "POST", "", {"name": "x", "public_key": key()}))[0] == 403

    new = await made(boss)
    headers = await program(boss, scopes=["bus-credentials:write"])
    async with aiohttp.ClientSession(world.url, headers=headers) as renewing:
        assert (await call(renewing, "POST", f"/{new['id']}/renew", {}))[0] == 200
        assert (await call(renewing, "GET"))[0] == 403


async def test_without_an_authority_nothing_is_made(world: World) -> None:
    boss = await world.login("boss@acme.example")

    assert (await call(boss, "POST", "", {"name": "x", "public_key": key()}))[0] == 503
    assert (await call(boss, "GET"))[1]["total"] == 0
