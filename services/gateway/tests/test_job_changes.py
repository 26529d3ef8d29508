"""Jobs are changed through the API: what reaches the proxy, and what is refused before."""

import time
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.reply import RpcError
from clusterra_gateway.http.requests.errors import InFlight, KeyReused, OutcomeUnknown
from clusterra_gateway.idempotency.key import ScopedKey
from clusterra_gateway.idempotency.once import CHANGE_SECONDS, ChangeOnce
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore
from gateway_world import World

MAIN = "/v1/clusters/main/jobs"


@pytest.mark.parametrize("jobs", ["42", "42_7", "42_[1-5,9]", "42_[0-98:2]"])
@pytest.mark.parametrize(
    ("method", "path", "body", "change"),
    [
        ("POST", "/hold", None, {"action": "hold"}),
        ("POST", "/release", None, {"action": "release"}),
        ("POST", "/requeue", None, {"action": "requeue", "hold": False}),
        ("POST", "/requeue", {"hold": True}, {"action": "requeue", "hold": True}),
        ("POST", "/signal", {"signal": "USR1"}, {"action": "signal", "signal": "USR1", "batch_only": False}),
        ("PATCH", "", {"nice": 9}, {"action": "update", "changes": {"nice": 9}}),
    ],
)
async def test_a_change_reaches_the_proxy(
    world: World, jobs: str, method: str, path: str, body: Any, change: dict[str, Any]
) -> None:
    world.acme.add_job("42")
    browser = await world.login("ada@acme.example")

    async with browser.request(method, f"{MAIN}/{jobs}{path}", json=body) as answer:
        assert (answer.status, await answer.read()) == (204, b"")

    (asked,) = world.acme.changes
    assert (asked.jobs, asked.viewer.user.name, asked.viewer.admin) == (jobs, "ada", False)
    assert asked.change.model_dump(exclude_none=True, exclude={"further"}) == change


async def test_some_tasks_are_cancelled(world: World) -> None:
    world.acme.add_job("42")
    browser = await world.login("ada@acme.example")

    async with browser.delete(f"{MAIN}/42_[1-5]") as answer:
        assert answer.status == 204

    (asked,) = world.acme.changes
    assert (asked.jobs, asked.change.action) == ("42_[1-5]", "cancel")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/signal", {"signal": "BOOM"}),
        ("POST", "/signal", {}),
        ("POST", "/requeue", {"hold": "perhaps"}),
        ("PATCH", "", {"nice": -1}),
        ("PATCH", "", {"time_limit": 0}),
        ("PATCH", "", {"begin_time": False}),
        ("PATCH", "", {"nice": True}),
        ("PATCH", "", {"user_id": 0}),
        ("PATCH", "", {"comment": "mine"}),
        ("PATCH", "", {"priority": 99}),
    ],
)
async def test_a_change_that_nobody_may_make_is_not_sent(world: World, method: str, path: str, body: Any) -> None:
    world.acme.add_job("42")
    browser = await world.login("ada@acme.example")

    async with browser.request(method, f"{MAIN}/42{path}", json=body) as answer:
        assert answer.status == 400, await answer.text()

    assert world.acme.changes == []


@pytest.mark.parametrize("jobs", ["0", "42_", "42_[]", "42_[1-]", "42_[1%252]", "42_[9-", "x"])
async def test_what_selects_no_job_is_not_found(world: World, jobs: str) -> None:
    browser = await world.login("ada@acme.example")

    for method, path in (("POST", "/hold"), ("DELETE", "")):
        async with browser.request(method, f"{MAIN}/{jobs}{path}") as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json")

    assert (world.acme.changes, world.acme.cancelled) == ([], [])


@pytest.mark.parametrize(("kind", "status"), [("conflict", 409), ("rejected", 422), ("forbidden", 403)])
async def test_what_slurm_refuses_is_told_with_its_reason(world: World, kind: Any, status: int) -> None:
    world.acme.add_job("42")
    world.acme.change_error = kind
    browser = await world.login("ada@acme.example")

    async with browser.post(f"{MAIN}/42/hold") as answer:
        assert answer.status == status
        assert (await answer.json())["detail"] == "refused as the test wants it"


async def test_a_key_makes_a_change_once(world: World) -> None:
    world.acme.add_job("42")
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    key = {"Idempotency-Key": "0123456789"}

    async def sent(path: str, body: Any = None, browser: Any = ada) -> int:
        async with browser.post(f"{MAIN}/42{path}", json=body, headers=key) as answer:
            return int(answer.status)

    assert [await sent("/signal", {"signal": "USR1"}) for _ in range(3)] == [204] * 3
    assert len(world.acme.changes) == 1
    async with ada.post(f"{MAIN}/42/signal", json={"signal": "USR1"}, headers=key) as answer:
        assert answer.headers["Idempotent-Replayed"] == "true"
    assert await sent("/signal", {"signal": "USR2"}) == 422
    assert await sent("/requeue") == 422
    assert await sent("/signal", {"signal": "USR1"}, boss) == 204
    assert len(world.acme.changes) == 2


@pytest.mark.parametrize(("kind", "again"), [("conflict", 204), ("unavailable", 409)])
async def test_a_failed_change_frees_its_key_unless_it_may_have_been_made(world: World, kind: Any, again: int) -> None:
    world.acme.add_job("42")
    browser = await world.login("ada@acme.example")

    async def sent() -> int:
        async with browser.post(f"{MAIN}/42/requeue", headers={"Idempotency-Key": "0123456789"}) as answer:
            return int(answer.status)

    world.acme.change_error = kind
    assert await sent() in (409, 503)
    world.acme.change_error = None

    assert await sent() == again


async def test_a_change_without_an_outcome_is_never_repeated() -> None:
    now, made = time.time(), 0
    store = MemoryStore()
    await store.create_tables(IDEMPOTENCY)
    keys = ChangeOnce(store, lambda: now)
    key = ScopedKey(ClusterRef(tenant="acme", cluster="main"), "ada", "0123456789")

    async def lost() -> None:
        nonlocal made
        made += 1
        raise RpcFailed(RpcError(kind="unavailable", detail="no answer"))

    with pytest.raises(RpcFailed):
        await keys.run(key, "signal", lost)
    with pytest.raises(InFlight):
        await keys.run(key, "signal", lost)
    now += CHANGE_SECONDS
    with pytest.raises(OutcomeUnknown):
        await keys.run(key, "signal", lost)
    with pytest.raises(KeyReused):
        await keys.run(key, "requeue", lost)
    assert made == 1
