"""Admins pause and resume a cluster over HTTP: the other services learn of it, and the audit names who did it."""

import asyncio

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts import projection
from clusterra_gateway.accounts.directory import Directory
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.store.store import StoreUnavailable
from gateway_world import World

CLUSTER = "/v1/clusters/main"


async def test_an_admin_pauses_and_resumes_a_cluster(world: World) -> None:
    boss = await world.login("boss@acme.example")

    for state, changed in (("paused", True), ("paused", False), ("active", True)):
        async with boss.patch(CLUSTER, json={"state": state}) as answer:
            assert answer.status == 200, await answer.text()
            assert await answer.json() == {"id": "main", "state": state, "changed": changed}

        async def shown(wanted: str = state) -> bool:
            async with boss.get(CLUSTER) as answer:
                return bool((await answer.json())["state"] == wanted)

        await until(shown, seconds=30, what=f"a cluster that is {state}", every=0.05)


async def test_a_change_that_is_held_up_undoes_no_later_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    boss = await world.login("boss@acme.example")
    held, go_on = asyncio.Event(), asyncio.Event()

    async def late(client: Client, ref: ClusterRef, binding: ClusterBinding) -> bool:
        if not held.is_set():
            held.set()
            await go_on.wait()
        return await put_binding(client, ref, binding)

    async def changed_to(state: str) -> int:
        async with boss.patch(CLUSTER, json={"state": state}) as answer:
            return answer.status

    monkeypatch.setattr(projection, "put_binding", late)
    first = asyncio.create_task(changed_to("paused"))
    await held.wait()
    assert await changed_to("active") == 200
    go_on.set()
    assert await first == 200

    found = await last(world.client, "KV_registry", f"$KV.registry.{world.acme.ref.key}", ClusterBinding)
    assert found is not None
    assert found[0].state == "active"


async def test_a_change_of_a_cluster_reads_no_other_tenant_s(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    boss = await world.login("boss@acme.example")

    clusters = Directory.clusters

    async def of_one_tenant(directory: Directory, tenant: str | None = None) -> dict[ClusterRef, ClusterBinding]:
        if tenant is None:
            raise StoreUnavailable("thousands of clusters")
        return await clusters(directory, tenant)

    monkeypatch.setattr(Directory, "clusters", of_one_tenant)

    async with boss.patch(CLUSTER, json={"state": "paused"}) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.parametrize(
    ("body", "status"), [({"state": "removed"}, 400), ({}, 400), ({"state": "paused", "name": "x"}, 400)]
)
async def test_a_wrong_change_is_rejected(world: World, body: dict[str, str], status: int) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.patch(CLUSTER, json=body) as answer:
        assert answer.status == status


@pytest.mark.parametrize("overlap", [False, True, -1, 8 * 86_400, "1h", 1.5])
async def test_a_wrong_overlap_makes_no_key(world: World, overlap: object) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.post(f"{CLUSTER}/agent-keys", json={"overlap_seconds": overlap}) as answer:
        assert answer.status == 400


async def test_only_admins_of_the_tenant_change_a_cluster(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")

    for browser, status in ((ada, 403), (chief, 404)):
        async with browser.patch(CLUSTER, json={"state": "paused"}) as answer:
            assert answer.status == status
        async with browser.post(f"{CLUSTER}/agent-keys", json={}) as answer:
            assert answer.status == status


async def test_a_token_needs_the_scope(world: World) -> None:
    boss = await world.login("boss@acme.example")
    for scope, status in (("clusters:read", 403), ("clusters:write", 200)):
        async with boss.post("/v1/users/me/tokens", json={"name": scope, "scopes": [scope]}) as answer:
            token = (await answer.json())["token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with (await world.browser()).patch(CLUSTER, json={"state": "paused"}, headers=headers) as answer:
            assert answer.status == status


async def test_the_events_name_who_acted(world: World) -> None:
    boss = await world.login("boss@acme.example")
    async with boss.get(f"{CLUSTER}/events/stream") as stream:
        async with boss.patch(CLUSTER, json={"state": "paused"}) as answer:
            assert answer.status == 200
        async with boss.post(f"{CLUSTER}/agent-keys", json={}) as answer:
            key = (await answer.json())["agent_key"]
        received = b""
        while b"cluster.agent_key_rotated" not in received:
            received += await stream.content.readany()

    assert b"cluster.paused" in received
    assert b'"actor":"boss"' in received.replace(b" ", b"")
    assert key.encode() not in received
