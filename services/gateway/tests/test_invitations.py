"""Invitations: who may make them, who may accept them, and that each is accepted once."""

import asyncio
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from clusterra_gateway.accounts.keyspace import ACCOUNTS, sent_invitation_key
from clusterra_gateway.invitations import invitations
from clusterra_runtime.store.store import Update
from gateway_world import World
from test_members import change, me, program

INVITATIONS = "/v1/invitations"
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


async def test_no_tenant_takes_the_people_of_another(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    chief = await world.login("chief@rival.example")

    async with chief.post(INVITATIONS, json={"email": "ada@acme.example"}) as answer:
        assert answer.status == 409

    of_acme = await invited(boss)
    async with chief.delete(f"{INVITATIONS}/{of_acme['id']}") as answer:
        assert answer.status == 404
    assert await total(chief) == 0
    assert (await accept(world, of_acme["token"]))[0] == 303
    assert (await accept(world, (await invited(chief))["token"]))[0] == 409
    assert (await me(ada))["tenant"]["id"] == "acme"


async def test_only_admins_invite_and_only_in_a_session(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    token = await program(boss)

    async with ada.post(INVITATIONS, json={"email": GUEST}) as answer:
        assert answer.status == 403
    async with boss.post(INVITATIONS, json={"email": GUEST}, headers=token) as answer:
        assert answer.status == 403
    async with boss.post(INVITATIONS, json={"email": GUEST, "role": "owner"}) as answer:
        assert answer.status == 400
    for seconds in (59, 31 * 86_400):
        async with boss.post(INVITATIONS, json={"email": GUEST, "expires_in_seconds": seconds}) as answer:
            assert answer.status == 400


async def test_the_secret_is_shown_once(world: World) -> None:
    boss = await world.login("boss@acme.example")
    made = await invited(boss)

    async with boss.get(INVITATIONS) as answer:
        text = await answer.text()

    assert made["id"] in text
    assert made["token"].rpartition("_")[2] not in text
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
