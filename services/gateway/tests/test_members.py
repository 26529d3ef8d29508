"""Members: what each role and each scope of a token allows, and how fast what is taken is gone everywhere."""

import asyncio
from functools import partial

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key, invitation_key, member_key, tenant_key
from clusterra_gateway.accounts.records import Domain, Invitation, Member, Tenant
from clusterra_gateway.accounts.roles import ROLES, SCOPES, Role, includes
from clusterra_gateway.identity.access.private_route import PrivateRoute
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put
from gateway_world import World, apply_file
from people_world import SUBMISSION, TAKEN_SECONDS, change, me, owner, program, replica
from route_table import example_path, route_table
from scim_world import scim_key
from sse_reader import sse_reader


def test_every_private_route_names_its_scope() -> None:
    private = [route for route in route_table() if isinstance(route, PrivateRoute)]

    assert {route.scope for route in private} == set(SCOPES)
    assert all(route.role in ROLES for route in private)
    assert all(includes(route.role, "member") for route in private if route.scope == "jobs:write")


async def refused_for(world: World, headers: dict[str, str], word: str) -> dict[str, bool]:
    """Route name -> whether a request with these headers is refused, and the reason names this word."""
    refused = {}
    async with aiohttp.ClientSession(world.url, headers=headers) as program:
        for route in route_table():
            if not isinstance(route, PrivateRoute):
                continue
            body = SUBMISSION if route.method == "POST" else {}
            async with program.request(route.method, example_path(route), json=body) as answer:
                reason = await answer.text() if answer.status == 403 else ""
            refused[route.name] = word in reason
    return refused


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_may_call_the_routes_of_its_level_and_no_others(world: World, role: Role) -> None:
    chief, ada = await owner(world), await world.login("ada@acme.example")
    world.acme.add_job("7", user="ada")
    headers = await program(ada)
    assert await change(chief, (await me(ada))["id"], role=role) == 200

    refused = await refused_for(world, headers, "role")

    routes = {route.name: route for route in route_table() if isinstance(route, PrivateRoute)}
    assert refused == {name: not includes(role, routes[name].role) for name in refused}


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_limited_token_may_call_the_routes_of_its_scope_and_no_others(world: World, scope: str) -> None:
    headers = await program(await owner(world), scopes=[scope])

    refused = await refused_for(world, headers, "scope")

    routes = {route.name: route for route in route_table()}
    assert refused == {name: routes[name].scope != scope for name in refused}


async def status_of(url: str, headers: dict[str, str], path: str) -> int:
    async with aiohttp.ClientSession(url, headers=headers) as other, other.get(path) as answer:
        return answer.status


async def until_answered(url: str, headers: dict[str, str], path: str, status: int) -> None:
    async def known() -> bool:
        return await status_of(url, headers, path) == status

    await until(known, seconds=TAKEN_SECONDS, every=0.02, what="the other replica to know")


async def test_a_lowered_role_counts_on_every_replica_within_a_second(world: World) -> None:
    boss, ada = [await world.login(f"{name}@acme.example") for name in ("boss", "ada")]
    headers, ada_id = await program(ada), (await me(ada))["id"]
    raised = await change(boss, ada_id, role="admin")
    async with replica(world) as url:
        before = await status_of(url, headers, "/v1/members")

        lowered = await change(boss, ada_id, role="viewer")

        await until_answered(url, headers, "/v1/members", 403)
        assert (raised, before, lowered) == (200, 200, 200)
        assert await status_of(url, headers, "/v1/users/me") == 200


async def test_an_event_tells_what_a_member_was_and_is(world: World) -> None:
    chief, ada = await owner(world), await world.login("ada@acme.example")
    ada_id = (await me(ada))["id"]

    async with sse_reader(chief, "/v1/clusters/main/events/stream") as reader:
        await change(chief, ada_id, role="admin")
        await change(chief, ada_id, disabled=True)

        def told() -> list[tuple[str, str]]:
            facts = [Event.model_validate_json(event.data).data for event in reader.events]
            return [
                (fact.before, fact.after) for fact in facts if isinstance(fact, AdminFact) and fact.subject == "ada"
            ]

        await until(lambda: len(told()) >= 2, seconds=90, what="the events")

    assert told() == [("member", "admin"), ("admin", "admin (disabled)")]


async def test_a_token_that_an_admin_revokes_is_refused_on_every_replica_within_a_second(world: World) -> None:
    boss, bob = [await world.login(f"{name}@acme.example") for name in ("boss", "bob")]
    headers, bob_id = await program(bob), (await me(bob))["id"]
    async with boss.get(f"/v1/members/{bob_id}/tokens") as answer:
        (token,) = (await answer.json())["tokens"]
    async with replica(world) as url:
        before = await status_of(url, headers, "/v1/users/me")

        async with boss.delete(f"/v1/members/{bob_id}/tokens/{token['id']}") as answer:
            revoked = answer.status

        await until_answered(url, headers, "/v1/users/me", 401)
        assert (before, revoked) == (200, 204)


async def test_a_disabled_persons_token_is_refused_on_every_replica_within_a_second(world: World) -> None:
    boss, ada = [await world.login(f"{name}@acme.example") for name in ("boss", "ada")]
    headers, ada_id = await program(ada), (await me(ada))["id"]
    async with replica(world) as url:
        before = await status_of(url, headers, "/v1/users/me")

        disabled = await change(boss, ada_id, disabled=True)

        await until_answered(url, headers, "/v1/users/me", 401)
        assert (before, disabled) == (200, 200)


async def test_what_is_taken_is_gone_as_fast_in_a_tenant_without_clusters(world: World) -> None:
    for key, record in (
        (tenant_key("lone"), Tenant(name="Lone")),
        (domain_key("lone.example"), Domain(tenant="lone")),
        (invitation_key("boss@lone.example"), Invitation(tenant="lone", admin=True)),
    ):
        await world.store.write(Put(ACCOUNTS, key, record.attributes(), Absent()))
    boss, ada, bob = [await world.login(f"{name}@lone.example") for name in ("boss", "ada", "bob")]
    headers = await program(ada)

    async with (
        replica(world) as url,
        aiohttp.ClientSession(url, headers=headers) as of_token,
        aiohttp.ClientSession(url, headers=await program(bob)) as of_member,
    ):

        async def statuses() -> list[int]:
            found = []
            for each in (of_token, of_member):
                async with each.get("/v1/clusters") as answer:
                    found.append(answer.status)
            return found

        assert await statuses() == [200, 200]
        async with ada.delete(f"/v1/users/me/tokens/{headers['Authorization'].split('_')[2]}") as answer:
            assert answer.status == 204
        assert await change(boss, (await me(bob))["id"], disabled=True) == 200

        async def gone() -> bool:
            return await statuses() == [401, 401]

        await until(gone, seconds=TAKEN_SECONDS, every=0.02, what="the other replica to know")


async def test_an_open_stream_ends_when_its_reader_is_disabled(world: World) -> None:
    boss, ada, bob = [await world.login(f"{name}@acme.example") for name in ("boss", "ada", "bob")]
    ada_id = (await me(ada))["id"]

    async with (
        replica(world) as url,
        aiohttp.ClientSession(url, headers=await program(ada)) as reader,
        aiohttp.ClientSession(url, headers=await program(bob)) as other,
        reader.get("/v1/clusters/main/events/stream") as stream,
        other.get("/v1/clusters/main/events/stream") as stays,
    ):
        assert (stream.status, stays.status) == (200, 200)
        assert await change(boss, ada_id, disabled=True) == 200

        async with asyncio.timeout(TAKEN_SECONDS):
            await stream.content.read()
        assert not stays.content.at_eof()


async def test_a_disabled_member_cannot_sign_in(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    assert await change(boss, (await me(ada))["id"], disabled=True) == 200

    again = await world.login("ada@acme.example")
    async with again.get("/v1/users/me") as answer:
        problem = await answer.json()

    assert answer.status == 401
    assert "disabled" in problem["detail"]


async def test_a_sign_in_undoes_nothing_that_an_admin_does_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    ada_id, read = (await me(ada))["id"], Directory.invitation

    async def read_meanwhile(directory: Directory, email: str) -> Invitation | None:
        if email == "ada@acme.example":
            assert await change(boss, ada_id, role="viewer", disabled=True) == 200
        return await read(directory, email)

    monkeypatch.setattr(Directory, "invitation", read_meanwhile)
    await world.login("ada@acme.example")

    found = await world.store.get(ACCOUNTS, member_key(ada_id))
    assert found is not None
    assert (Member.of(found).role, Member.of(found).disabled) == ("viewer", True)


async def test_the_last_who_manages_the_tenant_stays(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    boss_id, ada_id = (await me(boss))["id"], (await me(ada))["id"]

    assert await change(boss, boss_id, role="member") == 409
    assert await change(boss, boss_id, disabled=True) == 409
    assert await change(boss, ada_id, role="admin") == 200
    statuses = await asyncio.gather(change(boss, boss_id, role="member"), change(ada, ada_id, role="member"))

    assert sorted(statuses) == [200, 409]


async def test_only_an_owner_makes_an_owner(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    ada_id = (await me(ada))["id"]

    assert await change(boss, ada_id, role="owner") == 403
    assert (await me(ada))["role"] == "member"


async def test_whom_the_provision_file_makes_an_owner_is_one_from_the_next_sign_in(world: World) -> None:
    boss = await world.login("boss@acme.example")
    assert (await me(boss))["role"] == "admin"
    acme = {"id": "acme", "name": "Acme", "domains": ["acme.example"], "owners": ["boss@acme.example"]}
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        await apply_file(Directory(world.store, outbox), acme)

    await world.login("boss@acme.example", boss)

    assert (await me(boss))["role"] == "owner"
    assert await scim_key(boss)


async def test_members_of_another_tenant_do_not_exist(world: World) -> None:
    boss, eve = await world.login("boss@acme.example"), await world.login("eve@rival.example")
    eve_id = (await me(eve))["id"]

    for method, path in (
        ("GET", f"/v1/members/{eve_id}"),
        ("PATCH", f"/v1/members/{eve_id}"),
        ("GET", f"/v1/members/{eve_id}/tokens"),
        ("DELETE", f"/v1/members/{eve_id}/tokens/{'0' * 16}"),
    ):
        async with boss.request(method, path, json={"disabled": True}) as answer:
            assert answer.status == 404, path
    async with boss.get("/v1/members?limit=1") as answer:
        first = await answer.json()
    async with boss.get(f"/v1/members?cursor={first['next_cursor']}") as answer:
        rest = await answer.json()

    names = [each["name"] for page in (first, rest) for each in page["members"]]
    assert names == ["boss"]


async def test_a_role_survives_the_next_sign_in(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    assert await change(boss, (await me(ada))["id"], role="admin") == 200
    assert await change(ada, (await me(boss))["id"], role="member") == 200

    again = [await me(await world.login(f"{name}@acme.example")) for name in ("ada", "boss")]

    assert [each["role"] for each in again] == ["admin", "member"]


def test_a_role_that_the_release_before_changed_counts() -> None:
    at = now()
    member = Member(issuer="i", subject="s", tenant="acme", user="ada", uid=20001, email="a@b", joined_at=at)
    stored = member.with_role("owner", given_at=at).attributes()

    demoted = Member.model_validate({**stored, "admin": False})
    written_before = Member.model_validate({key: stored[key] for key in stored if not key.startswith("role")})

    assert Member.model_validate(stored).role == "owner"
    assert (demoted.role, written_before.role) == ("member", "admin")


async def test_an_admin_sees_and_revokes_everybody_s_tokens(world: World) -> None:
    boss, ada, eve = [
        await world.login(each) for each in ("boss@acme.example", "ada@acme.example", "eve@rival.example")
    ]
    of_boss, of_ada, also_of_ada = await program(boss), await program(ada), await program(ada)
    await program(eve)
    ada_id = (await me(ada))["id"]

    async def owners(query: str = "") -> list[str]:
        async with boss.get(f"/v1/tokens{query}") as answer:
            assert answer.status == 200, await answer.text()
            return [each["member_name"] for each in (await answer.json())["tokens"]]

    async def statuses() -> list[int]:
        found = []
        for headers in (of_boss, of_ada, also_of_ada):
            async with (
                aiohttp.ClientSession(world.url, headers=headers) as caller,
                caller.get("/v1/clusters") as answer,
            ):
                found.append(answer.status)
        return found

    assert await owners() == ["ada", "ada", "boss"]
    assert await owners("?limit=1") == ["ada", "ada"]
    assert await statuses() == [200, 200, 200]
    async with boss.delete(f"/v1/members/{ada_id}/tokens") as answer:
        assert answer.status == 204
    assert await owners() == ["boss"]
    assert await statuses() == [200, 401, 401]
    async with eve.get("/v1/tokens") as answer:
        assert answer.status == 403
