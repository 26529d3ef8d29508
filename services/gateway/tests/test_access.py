"""Access: API tokens, requests of other sites, and the separation of tenants."""

import asyncio
import posixpath
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.directory.scim.protocol import ScimRoute
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.identity.access.credentials import CACHE_SECONDS
from clusterra_gateway.identity.access.cross_site import reject_cross_site
from clusterra_gateway.identity.access.private_route import PrivateRoute
from clusterra_gateway.identity.tokens.token_records import MAX_TOKENS
from clusterra_runtime.nats import bus
from gateway_world import World
from people_world import SUBMISSION, make_token, status_with
from route_table import example_path, route_table

OURS = "http://127.0.0.1:8080"


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(world: World) -> None:
    program = await world.browser()
    browser = await world.login("ada@acme.example")
    made = await make_token(browser)

    async with browser.get("/v1/users/me/tokens") as answer:
        listed = await answer.json()

    assert listed["total"] == 1
    assert listed["tokens"] == [
        {key: made[key] for key in ("id", "name", "created_at", "expires_at", "scopes", "last_used_at")}
    ]
    assert await status_with(program, made["token"]) == 200

    async with browser.delete(f"/v1/users/me/tokens/{made['id']}") as answer:
        assert answer.status == 204

    assert await status_with(program, made["token"]) == 401
    async with browser.delete(f"/v1/users/me/tokens/{made['id']}") as answer:
        assert answer.status == 404


async def test_no_token_is_stored(world: World) -> None:
    made = await make_token(await world.login("ada@acme.example"))

    secret = made["token"].split("_", 3)[3]
    assert len(secret) >= 40
    assert secret not in repr(world.store._tables)


async def test_invalid_tokens_are_rejected(world: World) -> None:
    program = await world.browser()
    made = await make_token(await world.login("ada@acme.example"))
    me = made["token"].split("_")[1]
    bob = await make_token(await world.login("bob@acme.example"))

    for token in (
        made["token"][:-1] + ("A" if made["token"][-1] != "A" else "B"),
        f"clusterra_{me}_{bob['id']}_{bob['token'].split('_', 3)[3]}",
        "clusterra_",
        "clusterra___",
        "clusterra_é_x_y",
        f"clusterra_{'x' * 4000}_x_y",
        "nonsense",
    ):
        assert await status_with(program, token) == 401, token


async def test_a_token_can_neither_make_tokens_nor_sign_out(world: World) -> None:
    made = await make_token(await world.login("ada@acme.example"))
    program = await world.browser()
    headers = {"Authorization": f"Bearer {made['token']}"}

    async with program.post("/v1/users/me/tokens", json={"name": "more"}, headers=headers) as answer:
        assert answer.status == 403
    async with program.post("/v1/auth/logout", headers=headers) as answer:
        assert answer.status == 403


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": "a\nb"}, {"expires_in_seconds": 0}, {"expires_in_seconds": 10**9}, {"x": 1}]
)
async def test_a_token_needs_a_valid_name_and_lifetime(world: World, wrong: dict[str, Any]) -> None:
    browser = await world.login("ada@acme.example")
    async with browser.post("/v1/users/me/tokens", json={"name": "ci"} | wrong) as answer:
        assert answer.status == 400


async def test_tokens_that_are_made_at_once_never_exceed_the_limit(world: World) -> None:
    ada = await world.login("ada@acme.example")

    async def make() -> int:
        async with ada.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
            return answer.status

    first = [await make() for _ in range(MAX_TOKENS - 3)]

    at_once = await asyncio.gather(*(make() for _ in range(8)))

    assert set(first) == {201}
    assert sorted(at_once) == [201] * 3 + [409] * 5
    async with ada.get("/v1/users/me/tokens") as answer:
        assert (await answer.json())["total"] == MAX_TOKENS


async def test_a_token_revoked_on_another_replica_stops_working_within_15_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = await world.browser()
    browser = await world.login("ada@acme.example")
    made = await make_token(browser)
    assert await status_with(program, made["token"]) == 200

    world.store._tables["accounts"][f"member#{made['token'].split('_')[1]}"].pop(f"token#{made['id']}")
    assert await status_with(program, made["token"]) == 200

    later = asyncio.get_running_loop().time() + CACHE_SECONDS + 1
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.time.monotonic", lambda: later)
    assert await status_with(program, made["token"]) == 401


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Origin": OURS}, True),
        ({"Origin": OURS, "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Origin": "https://console.example", "Sec-Fetch-Site": "same-site"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://127.0.0.1:8081"}, False),
        ({"Origin": "https://127.0.0.1:8080"}, False),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
    ],
)
def test_only_pages_of_our_own_origin_may_change_things(headers: dict[str, str], allowed: bool) -> None:
    origins = {OURS, "https://console.example"}
    reject_cross_site("GET", headers, origins)
    for method, more in (
        ("POST", {}),
        ("DELETE", {}),
        ("GET", {"Upgrade": "WebSocket"}),
        ("GET", {"Upgrade": "h2c, websocket"}),
    ):
        if allowed:
            reject_cross_site(method, headers | more, origins)
        else:
            with pytest.raises(Forbidden):
                reject_cross_site(method, headers | more, origins)


async def test_every_changing_route_rejects_pages_of_other_sites(world: World) -> None:
    world.acme.add_job("7")
    browser = await world.login("ada@acme.example")
    evil = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    changing = [route for route in route_table() if isinstance(route, PrivateRoute) and route.method != "GET"]
    assert len(changing) >= 5

    for route in changing:
        path = example_path(route)
        async with browser.request(route.method, path, json=SUBMISSION, headers=evil) as answer:
            assert answer.status == 403, route.name
            told = await answer.json(content_type=None)
            if isinstance(route, ScimRoute):
                assert told["status"] == "403"
                continue
            kind = told["errors"][0]["error"] if route.error else told["type"].rpartition("/")[2]
            assert kind == "forbidden"

    assert (world.acme.submits, world.acme.cancelled, world.acme.changes) == ([], [], [])


async def test_a_bearer_token_needs_no_origin(world: World) -> None:
    made = await make_token(await world.login("ada@acme.example"))
    headers = {"Authorization": f"Bearer {made['token']}", "Origin": "https://dashboard.example"}

    program = await world.browser()
    async with program.post("/v1/clusters/main/jobs/submit", json=SUBMISSION, headers=headers) as answer:
        assert answer.status == 201


async def test_every_private_route_needs_a_credential(world: World) -> None:
    stranger = await world.browser()
    for route in route_table():
        if isinstance(route, PrivateRoute):
            path = example_path(route)
            async with stranger.request(route.method, path) as answer:
                assert answer.status == 401, route.name
                assert answer.content_type == (route.error_type if route.error else "application/problem+json")


async def test_every_cluster_route_answers_404_for_another_tenants_cluster(world: World) -> None:
    world.rival.add_job("7", user="eve")
    world.rival.edge.write_output("7", b"secret")
    admin = await world.login("boss@acme.example")

    own = {route.path for route in route_table()}
    walked = 0
    for cluster in ("secret", "rival.secret", "..", "*", "%2e%2e", "rival%2Fsecret", "nothing"):
        for route in route_table():
            if "{cluster_id}" not in route.path or not isinstance(route, PrivateRoute):
                continue
            path = example_path(route, cluster)
            if posixpath.normpath(unquote(path)) in own:
                continue  # The client has resolved `..`, and asks for a route of the caller's own workspace.
            # A route for owners refuses an admin before it looks at the cluster.
            expected = {403, 404} if route.role == "owner" else {404}
            body = SUBMISSION if route.method == "POST" else None
            async with admin.request(route.method, path, json=body) as answer:
                assert answer.status in expected, (route.name, cluster)
                assert "secret" not in await answer.text()
                walked += 1

    assert walked >= 7 * 8
    assert (world.rival.submits, world.rival.cancelled, world.rival.changes, world.rival.edge.reads) == ([], [], [], [])

    async with admin.get("/v1/clusters") as answer:
        listed = await answer.json()
    assert [cluster["id"] for cluster in listed["clusters"]] == ["main"]
    assert listed["total"] == 1


async def test_a_tenant_sees_why_its_own_clusters_are_degraded(world: World) -> None:
    ada = await world.login("ada@acme.example")

    async def degraded() -> object:
        async with ada.get("/v1/clusters") as answer:
            return (await answer.json())["clusters"][0]["degraded"]

    assert await degraded() == []

    await put_condition(world, world.acme.ref, "slurmrestd does not respond")
    await put_condition(world, world.rival.ref, "a secret of the rival")
    assert await degraded() == [
        {"reason": "unreachable", "message": "slurmrestd does not respond", "since": "2026-03-01T12:00:00Z"}
    ]

    await put_condition(world, world.acme.ref)
    assert await degraded() == []


async def put_condition(world: World, ref: ClusterRef, *messages: str) -> None:
    """Store a condition as the proxy does."""
    since = datetime(2026, 3, 1, 12, tzinfo=UTC)
    degraded = tuple(Degradation(reason="unreachable", message=message, since=since) for message in messages)
    body, headers = encode(ClusterCondition(degraded=degraded))
    await bus.store(world.client, f"$KV.{CONDITIONS.name}.{ref.key}", body, headers)


async def test_members_see_their_own_jobs_and_admins_see_all(world: World) -> None:
    world.acme.add_job("7", user="bob", uid=29999)
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")

    for method, path in (
        ("GET", "/v1/clusters/main/jobs/7"),
        ("DELETE", "/v1/clusters/main/jobs/7"),
        ("DELETE", "/v1/clusters/main/jobs/7_[1-5]"),
        ("POST", "/v1/clusters/main/jobs/7/hold"),
        ("POST", "/v1/clusters/main/jobs/7/release"),
        ("POST", "/v1/clusters/main/jobs/7/requeue"),
        ("GET", "/v1/clusters/main/jobs/7/output"),
        ("GET", "/v1/clusters/main/jobs/7/output/stream"),
    ):
        async with ada.request(method, path) as answer:
            assert answer.status == 404, path

    async with boss.get("/v1/clusters/main/jobs/7") as answer:
        assert answer.status == 200
    async with boss.delete("/v1/clusters/main/jobs/7") as answer:
        assert answer.status == 204
