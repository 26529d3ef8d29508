"""Invitations: who may make them, who may accept them, and that each is accepted once."""

import asyncio
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from clusterra_gateway.accounts.keyspace import ACCOUNTS, invitation_key, sent_invitation_key
from clusterra_gateway.accounts.records import Invitation
from clusterra_gateway.people import invitations
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import Put, Update
from gateway_world import World
from people_world import change, cookie_of, me, program

INVITATIONS = "/v1/invitations"
MEMBERSHIPS = "/v1/users/me/memberships"
GUEST = "guest@elsewhere.example"


async def invited(browser: aiohttp.ClientSession, email: str = GUEST, **fields: Any) -> dict[str, Any]:
    async with browser.post(INVITATIONS, json={"email": email} | fields) as answer:
        assert answer.status == 201, await answer.text()
        made: dict[str, Any] = await answer.json()
        return made


async def accept(world: World, token: str, email: str = GUEST) -> tuple[int, aiohttp.ClientSession]:
    """The last status of a login that accepts an invitation, and its browser."""
    browser = await world.browser()
    origin = {"Origin": world.settings.public_url}
    async with browser.post("/v1/auth/login", json={"token": token}, headers=origin) as answer:
        if answer.status != 200:
            return answer.status, browser
        location = (await answer.json())["location"]
    assert token not in location
    async with browser.get(f"{location}&login_hint={quote(email)}", allow_redirects=False) as answer:
        back = answer.headers["Location"]
    async with browser.get(back, allow_redirects=False) as answer:
        return answer.status, browser


async def total(browser: aiohttp.ClientSession) -> int:
    async with browser.get(INVITATIONS) as answer:
        found: int = (await answer.json())["total"]
        return found


@pytest.mark.parametrize("role", ["viewer", "member", "admin"])
async def test_who_accepts_joins_with_the_role(world: World, role: str) -> None:
    boss = await world.login("boss@acme.example")
    made = await invited(boss, "Guest@Elsewhere.example", role=role)

    status, guest = await accept(world, made["token"])

    assert status == 303
    profile = await me(guest)
    assert (profile["tenant"]["id"], profile["role"], profile["email"]) == ("acme", role, GUEST)
    assert await total(boss) == 0
    again = await me(await world.login(GUEST))
    assert (again["id"], again["role"]) == (profile["id"], role)


async def test_an_invitation_is_accepted_once(world: World) -> None:
    boss = await world.login("boss@acme.example")
    made = await invited(boss)

    first, second = await asyncio.gather(accept(world, made["token"]), accept(world, made["token"]))

    assert sorted([first[0], second[0]])[0] == 303
    async with boss.get("/v1/members") as answer:
        names = [each["name"] for each in (await answer.json())["members"]]
    assert names.count("guest") == 1
    assert (await accept(world, made["token"]))[0] == 403


async def test_an_invitation_is_for_its_address_alone(world: World) -> None:
    boss = await world.login("boss@acme.example")
    made = await invited(boss)

    assert (await accept(world, made["token"], "thief@elsewhere.example"))[0] == 403
    assert (await accept(world, made["token"][:-1] + ("A" if made["token"][-1] != "A" else "B")))[0] == 403
    assert (await accept(world, "nonsense"))[0] == 400
    assert await total(boss) == 1


async def test_nobody_joins_who_has_not_accepted(world: World) -> None:
    await invited(await world.login("boss@acme.example"))

    with pytest.raises(AssertionError, match="belongs to no workspace"):
        await world.login(GUEST)


async def test_a_revoked_and_an_expired_invitation_are_refused(world: World) -> None:
    boss = await world.login("boss@acme.example")
    revoked, expired = await invited(boss), await invited(boss)

    async with boss.delete(f"{INVITATIONS}/{revoked['id']}") as answer:
        assert answer.status == 204
    await world.store.write(Update(ACCOUNTS, sent_invitation_key("acme", expired["id"]), expires_at=1))

    assert [(await accept(world, each["token"]))[0] for each in (revoked, expired)] == [403, 403]
    assert await total(boss) == 0


async def memberships(browser: aiohttp.ClientSession) -> list[tuple[str, str, bool]]:
    async with browser.get(MEMBERSHIPS) as answer:
        assert answer.status == 200, await answer.text()
        found = (await answer.json())["memberships"]
    return [(each["tenant"]["id"], each["role"], each["current"]) for each in found]


async def choose(world: World, browser: aiohttp.ClientSession, tenant: str) -> int:
    origin = {"Origin": world.settings.public_url}
    async with browser.post(f"{MEMBERSHIPS}/{tenant}/session", headers=origin) as answer:
        return answer.status


async def test_a_person_belongs_to_several_tenants_and_chooses(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")
    token = (await invited(chief, "ada@acme.example", role="admin"))["token"]

    status, there = await accept(world, token, "ada@acme.example")

    assert status == 303
    at_home, abroad = await me(ada), await me(there)
    assert (at_home["tenant"]["id"], at_home["role"]) == ("acme", "member")
    assert (abroad["tenant"]["id"], abroad["role"]) == ("rival", "admin")
    assert at_home["id"] != abroad["id"]
    assert await memberships(there) == [("acme", "member", False), ("rival", "admin", True)]
    assert (await me(await world.login("ada@acme.example")))["tenant"]["id"] == "acme"

    before = cookie_of(ada)
    assert await choose(world, ada, "rival") == 200
    assert (await me(ada))["id"] == abroad["id"]
    assert (await me(ada))["session_expires_at"] == at_home["session_expires_at"]
    async with (await world.browser()).get("/v1/users/me", headers={"Authorization": f"Bearer {before}"}) as answer:
        assert answer.status == 401
    assert await choose(world, ada, "acme") == 200
    assert (await me(ada))["id"] == at_home["id"]


async def test_a_membership_ends_where_it_is_taken_and_nowhere_else(world: World) -> None:
    boss, chief = await world.login("boss@acme.example"), await world.login("chief@rival.example")
    ada = await world.login("ada@acme.example")
    _, there = await accept(world, (await invited(chief, "ada@acme.example"))["token"], "ada@acme.example")

    assert await change(chief, (await me(ada))["id"], disabled=True) == 404
    assert await change(boss, (await me(ada))["id"], disabled=True) == 200

    assert (await me(there))["tenant"]["id"] == "rival"
    assert await memberships(there) == [("rival", "member", True)]
    assert await choose(world, there, "acme") == 404
    assert (await me(await world.login("ada@acme.example")))["tenant"]["id"] == "rival"


async def test_nobody_chooses_a_tenant_they_do_not_belong_to(world: World) -> None:
    ada = await world.login("ada@acme.example")

    assert [await choose(world, ada, tenant) for tenant in ("rival", "nothing")] == [404, 404]
    async with aiohttp.ClientSession(world.url, headers=await program(ada)) as caller:
        assert await choose(world, caller, "acme") == 403


async def test_a_stranger_of_a_domain_joins_its_tenant_first(world: World) -> None:
    chief = await world.login("chief@rival.example")

    _, there = await accept(world, (await invited(chief, "new@acme.example"))["token"], "new@acme.example")

    assert await memberships(there) == [("acme", "member", False), ("rival", "member", True)]


async def test_no_tenant_sees_the_invitations_of_another(world: World) -> None:
    boss, chief = await world.login("boss@acme.example"), await world.login("chief@rival.example")
    of_acme = await invited(boss)

    async with chief.delete(f"{INVITATIONS}/{of_acme['id']}") as answer:
        assert answer.status == 404

    assert await total(chief) == 0
    assert (await accept(world, of_acme["token"]))[0] == 303


async def test_only_admins_invite_and_only_in_a_session(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    token = await program(boss)

    async with (
        ada.post(INVITATIONS, json={"email": GUEST}) as of_member,
        boss.post(INVITATIONS, json={"email": GUEST}, headers=token) as of_program,
    ):
        statuses = (of_member.status, of_program.status)

    assert statuses == (403, 403)


@pytest.mark.parametrize(
    "wrong", [{"role": "owner"}, {"expires_in_seconds": 59}, {"expires_in_seconds": 31 * 86_400}], ids=str
)
async def test_an_invitation_that_an_admin_may_not_make_is_refused(world: World, wrong: dict[str, object]) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.post(INVITATIONS, json={"email": GUEST} | wrong) as answer:
        status = answer.status

    assert status == 400


async def test_the_secret_is_shown_once(world: World) -> None:
    boss = await world.login("boss@acme.example")
    made = await invited(boss)

    async with boss.get(INVITATIONS) as answer:
        text = await answer.text()

    assert made["id"] in text
    assert made["token"].split("_", 3)[3] not in text
    stored = await world.store.get(ACCOUNTS, sent_invitation_key("acme", made["id"]))
    assert stored is not None
    assert made["token"].split("_", 3)[3] not in str(stored.attributes)


async def test_invitations_that_are_made_at_once_never_exceed_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invitations, "MAX_INVITATIONS", 2)
    boss = await world.login("boss@acme.example")

    async def invite(number: int) -> int:
        async with boss.post(INVITATIONS, json={"email": f"guest{number}@elsewhere.example"}) as answer:
            return answer.status

    statuses = await asyncio.gather(*map(invite, range(6)))

    assert set(statuses) == {201, 409}
    assert await total(boss) == statuses.count(201) <= 2


async def test_a_role_that_an_admin_changes_afterwards_stays(world: World) -> None:
    boss = await world.login("boss@acme.example")
    _, guest = await accept(world, (await invited(boss, role="admin"))["token"])

    assert await change(boss, (await me(guest))["id"], role="viewer") == 200

    assert (await me(await world.login(GUEST)))["role"] == "viewer"


async def test_the_role_of_an_accepted_invitation_counts_before_an_operator_s(world: World) -> None:
    boss = await world.login("boss@acme.example")
    _, guest = await accept(world, (await invited(boss, role="viewer"))["token"])
    operators = Invitation(tenant="acme", admin=True)
    await world.store.write(Put(ACCOUNTS, invitation_key(GUEST), operators.attributes(), Absent()))

    again = await world.login(GUEST)

    assert [(await me(each))["role"] for each in (guest, again)] == ["viewer", "viewer"]
