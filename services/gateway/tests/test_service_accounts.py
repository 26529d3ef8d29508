"""Service accounts: who may make them, what their keys allow, and how fast what is taken is gone."""

import asyncio
from datetime import datetime
from typing import Any

import aiohttp
import pytest
from clusterra_gateway.accounts.records import service_account_id
from clusterra_gateway.identity.access.authentication import SESSION
from clusterra_gateway.identity.access.signed_tokens import Claims, SigningKeys
from clusterra_gateway.people import service_accounts
from clusterra_lab.machine.process import until
from gateway_world import World
from people_world import SUBMISSION, TAKEN_SECONDS, change, me, owner, program, replica

ACCOUNTS = "/v1/service-accounts"
KEYS = f"{ACCOUNTS}/ci/keys"
NINETY_DAYS = 90 * 86_400


async def post(browser: aiohttp.ClientSession, path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    async with browser.post(path, json=fields) as answer:
        told: dict[str, Any] = await answer.json()
        return answer.status, told


async def created(browser: aiohttp.ClientSession, name: str = "ci", **fields: Any) -> dict[str, Any]:
    status, account = await post(browser, ACCOUNTS, name=name, **fields)
    assert status == 201, account
    return account


async def key(browser: aiohttp.ClientSession, **fields: Any) -> dict[str, Any]:
    status, made = await post(browser, KEYS, **({"name": "runner"} | fields))
    assert status == 201, made
    return made


async def status_of(url: str, made: dict[str, Any], path: str = "/v1/users/me") -> int:
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with aiohttp.ClientSession(url, headers=headers) as session, session.get(path) as answer:
        return answer.status


async def delete(browser: aiohttp.ClientSession, path: str) -> int:
    async with browser.delete(path) as answer:
        return answer.status


async def test_a_service_account_submits_jobs_under_a_uid_of_its_own(world: World) -> None:
    boss = await world.login("boss@acme.example")
    account = await created(boss, description="the pipeline")
    made = await key(boss)

    headers = {"Authorization": f"Bearer {made['token']}"}
    async with aiohttp.ClientSession(world.url, headers=headers) as pipeline:
        profile = await me(pipeline)
        async with pipeline.post("/v1/clusters/main/jobs/submit", json=SUBMISSION) as answer:
            assert answer.status == 201, await answer.text()

    assert (profile["name"], profile["uid"], profile["kind"]) == ("ci", account["uid"], "service_account")
    assert account["uid"] != (await me(boss))["uid"]
    (submit,) = world.acme.submits
    assert (submit.user.name, submit.user.uid) == ("ci", account["uid"])


async def test_a_key_is_shown_once_and_lasts_ninety_days_unless_asked_otherwise(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    made = await key(boss)

    async with boss.get(KEYS) as answer:
        text, listed = await answer.text(), await answer.json()

    assert [each["id"] for each in listed["keys"]] == [made["id"]]
    assert made["token"].split("_", 3)[3] not in text
    assert _seconds(made) == NINETY_DAYS
    for seconds, status in ((59, 400), (366 * 86_400, 400)):
        assert (await post(boss, KEYS, name="x", expires_in_seconds=seconds))[0] == status


async def test_names_are_unique_and_reserved_ones_are_refused(world: World) -> None:
    boss, _ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    await created(boss)

    statuses = {
        name: (await post(boss, ACCOUNTS, name=name))[0] for name in ("ci", "ada", "root", "slurm", "Not Valid")
    }

    assert statuses == {"ci": 409, "ada": 409, "root": 400, "slurm": 400, "Not Valid": 400}


async def test_a_person_does_not_get_the_name_of_a_service_account(world: World) -> None:
    await created(await world.login("boss@acme.example"), "ada")

    assert (await me(await world.login("ada@acme.example")))["name"] == "ada-2"


async def test_a_service_account_is_never_an_owner_nor_the_last_admin(world: World) -> None:
    chief = await owner(world)
    account = await created(chief, role="admin")

    assert (await post(chief, ACCOUNTS, name="other", role="owner"))[0] == 400
    assert await change(chief, account["id"], role="owner") == 403
    assert await change(chief, (await me(chief))["id"], role="member") == 409


async def test_only_admins_see_service_accounts_and_only_their_own_tenant_s(world: World) -> None:
    boss, ada, chief = [
        await world.login(each) for each in ("boss@acme.example", "ada@acme.example", "chief@rival.example")
    ]
    await created(boss)
    made = await key(boss)

    for method, path in (
        ("GET", f"{ACCOUNTS}/ci"),
        ("GET", KEYS),
        ("POST", KEYS),
        ("DELETE", f"{KEYS}/{made['id']}"),
        ("POST", f"{KEYS}/{made['id']}/rotate"),
        ("DELETE", f"{ACCOUNTS}/ci"),
    ):
        for browser, status in ((ada, 403), (chief, 404)):
            async with browser.request(method, path, json={"name": "x"}) as answer:
                assert answer.status == status, (method, path)
    async with chief.get(ACCOUNTS) as answer:
        assert (await answer.json())["total"] == 0
    assert await status_of(world.url, made) == 200


async def test_a_key_has_no_scope_that_its_account_lacks(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss, scopes=["profile", "jobs:read"])

    assert (await post(boss, KEYS, name="x", scopes=["jobs:write"]))[0] == 400
    all_of_them, one = await key(boss), await key(boss, scopes=["profile"])

    assert all_of_them["scopes"] == ["profile", "jobs:read"]
    assert await status_of(world.url, one) == 200
    assert await status_of(world.url, one, "/v1/clusters/main/jobs") == 403
    assert await status_of(world.url, all_of_them, "/v1/clusters") == 403


async def test_keys_are_made_in_a_session_and_no_key_makes_others(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss, role="admin")
    made = await key(boss)

    for headers in ({"Authorization": f"Bearer {made['token']}"}, await program(boss)):
        async with aiohttp.ClientSession(world.url, headers=headers) as caller:
            assert (await post(caller, KEYS, name="another"))[0] == 403
            assert (await post(caller, f"{KEYS}/{made['id']}/rotate"))[0] == 403
            assert (await post(caller, "/v1/users/me/tokens", name="another"))[0] == 403


async def test_a_service_account_has_no_session(world: World) -> None:
    await created(await world.login("boss@acme.example"))
    claims = Claims(sub=service_account_id("acme", "ci"), jti="1" * 32, iat=0, exp=2**31)

    session = SigningKeys.load(world.settings.session_key_file).sign(SESSION, claims, seconds=3600)

    assert await status_of(world.url, {"token": session}) == 401


async def test_a_revoked_key_is_gone_on_every_replica_and_no_other(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    first, second = await key(boss), await key(boss)

    async with replica(world) as url:
        before = [await status_of(url, each) for each in (first, second)]
        status = await delete(boss, f"{KEYS}/{first['id']}")
        await _gone(url, first)
        left = await status_of(url, second)

    assert (before, status, left) == ([200, 200], 204, 200)


async def test_a_deleted_account_and_its_keys_are_gone_on_every_replica(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    made = await key(boss)

    async with replica(world) as url:
        before = await status_of(url, made)
        status = await delete(boss, f"{ACCOUNTS}/ci")
        await _gone(url, made)
    async with boss.get(ACCOUNTS) as answer:
        accounts = (await answer.json())["total"]
    async with boss.get("/v1/members") as answer:
        members = {each["name"] for each in (await answer.json())["members"]}

    assert (before, status, accounts) == (200, 204, 0)
    assert "ci" not in members


async def test_a_name_that_comes_back_has_its_uid_and_none_of_its_keys(world: World) -> None:
    boss = await world.login("boss@acme.example")
    before = await created(boss, role="admin")
    made = await key(boss)
    assert await delete(boss, f"{ACCOUNTS}/ci") == 204

    after = await created(boss, role="viewer")

    assert (after["uid"], after["role"]) == (before["uid"], "viewer")
    assert await status_of(world.url, made) == 401
    async with boss.get(KEYS) as answer:
        assert (await answer.json())["total"] == 0


async def test_a_rotated_key_works_until_the_overlap_ends(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    old = await key(boss, scopes=["profile"])

    async with replica(world) as url:
        before = await status_of(url, old)
        status, new = await post(boss, f"{KEYS}/{old['id']}/rotate", overlap_seconds=3600)
        statuses = [await status_of(url, each) for each in (old, new)]
    async with boss.get(KEYS) as answer:
        ends = {each["id"]: _seconds(each) for each in (await answer.json())["keys"]}

    assert (status, new["name"], new["scopes"], _seconds(new)) == (201, "runner", ["profile"], NINETY_DAYS)
    assert [before, *statuses] == [200, 200, 200]
    assert ends[old["id"]] < 3700
    assert ends[new["id"]] == NINETY_DAYS


async def test_a_key_that_is_rotated_without_an_overlap_is_gone_at_once_and_no_other(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    old = await key(boss, scopes=["profile"])
    _, new = await post(boss, f"{KEYS}/{old['id']}/rotate", overlap_seconds=3600)

    async with replica(world) as url:
        before = await status_of(url, new)
        status, newest = await post(boss, f"{KEYS}/{new['id']}/rotate", overlap_seconds=0)
        await _gone(url, new)
        left = [await status_of(url, each) for each in (old, newest)]

    assert (before, status) == (200, 201)
    assert left == [200, 200]


async def test_a_key_that_is_gone_is_not_rotated(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await created(boss)
    old = await key(boss)
    await post(boss, f"{KEYS}/{old['id']}/rotate", overlap_seconds=0)

    status, _ = await post(boss, f"{KEYS}/{old['id']}/rotate")

    assert status == 404


async def test_accounts_that_are_made_at_once_never_exceed_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_accounts, "MAX_SERVICE_ACCOUNTS", 3)
    boss = await world.login("boss@acme.example")

    answers = await asyncio.gather(*(post(boss, ACCOUNTS, name=f"ci-{number}") for number in range(6)))

    statuses = [status for status, _ in answers]
    assert set(statuses) == {201, 409}
    async with boss.get(ACCOUNTS) as answer:
        assert (await answer.json())["total"] == statuses.count(201) <= 3


def _seconds(made: dict[str, Any]) -> int:
    ends, begins = [datetime.fromisoformat(made[field]) for field in ("expires_at", "created_at")]
    return round((ends - begins).total_seconds())


async def _gone(url: str, made: dict[str, Any]) -> None:
    async def gone() -> bool:
        return await status_of(url, made) == 401

    await until(gone, seconds=TAKEN_SECONDS, every=0.02, what="the other replica to know")
