"""Operators make, change and look at tenants and their clusters over HTTP; nobody else does."""

from pathlib import Path
from typing import Any

import pytest
import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts.keyspace import ACCOUNTS, listed_tenant_key
from clusterra_gateway.accounts.roles import OPERATOR_ROLE, OPERATOR_SCOPES
from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access import operators
from clusterra_gateway.identity.access.operators import Operators
from clusterra_gateway.identity.access.private_route import OperatorRoute
from clusterra_gateway.settings import SettingsFileInvalid
from clusterra_gateway.tenants.tenants import Tenants
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.direct import last
from clusterra_runtime.store.store import Delete
from gateway_world import CATALOGUE, World
from operator_tokens import TOKENS, write_operators
from people_world import replica
from route_table import example_path, route_table
from test_invitations import accept

TENANTS = "/v1/tenants"
NEW = {"id": "lab", "name": "The Lab", "domains": ["lab.example"], "owner": "head@lab.example"}
BINDING = {
    "id": "main",
    "name": "Main",
    "slurmrestd_url": "http://127.0.0.1:1",
    "jwt_key": "file:/none",
    "operator": {"name": "clusterra", "uid": 5000, "gid": 5000},
    "catalogue": CATALOGUE.model_dump(mode="json"),
}


async def made(world: World, **changes: Any) -> dict[str, Any]:
    async with (await world.operator()).post(TENANTS, json=NEW | changes) as answer:
        assert answer.status == 201, await answer.text()
        told: dict[str, Any] = await answer.json()
        return told


async def test_a_new_tenant_is_told_as_it_is_then_shown(world: World) -> None:
    operator = await world.operator()

    told = await made(world)
    async with operator.get(f"{TENANTS}/lab") as answer:
        shown = await answer.json()

    assert told["tenant"] == {
        "id": "lab",
        "name": "The Lab",
        "state": "active",
        "domains": ["lab.example"],
        "issuers": [],
        "usd_per_hour": None,
        "deleting_since": None,
    }
    assert shown == told["tenant"]


async def test_a_new_tenant_is_listed(world: World) -> None:
    await made(world)

    async with (await world.operator("rita")).get(TENANTS) as answer:
        tenants = (await answer.json())["tenants"]

    assert [each["id"] for each in tenants] == ["acme", "lab", "rival"]


async def test_the_first_owner_of_a_new_tenant_accepts_the_invitation(world: World) -> None:
    told = await made(world)

    status, owner = await accept(world, told["invitation"]["token"], "head@lab.example")
    async with owner.get("/v1/users/me") as answer:
        profile = await answer.json()

    assert status == 303
    assert (profile["tenant"]["id"], profile["role"]) == ("lab", "owner")


async def test_a_tenant_of_the_release_before_is_listed_once_a_gateway_starts(world: World) -> None:
    await world.store.delete(Delete(ACCOUNTS, listed_tenant_key("rival")))
    async with replica(world) as _, (await world.operator()).get(TENANTS) as answer:
        assert [each["id"] for each in (await answer.json())["tenants"]] == ["acme", "rival"]


async def test_logs_name_an_operator_as_events_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[object] = []
    page = Tenants.page

    async def noting(tenants: Tenants, **given: Any) -> Any:
        named.append(structlog.contextvars.get_contextvars()["operator"])
        return await page(tenants, **given)

    monkeypatch.setattr(Tenants, "page", noting)

    async with (await world.operator()).get(TENANTS) as answer:
        assert answer.status == 200

    assert named == ["operator:anna"]


async def test_the_list_is_read_in_pages(world: World) -> None:
    operator, found, cursor = await world.operator(), [], ""

    while cursor is not None:
        async with operator.get(TENANTS, params={"limit": "1"} | ({"cursor": cursor} if cursor else {})) as answer:
            page = await answer.json()
        found += [each["id"] for each in page["tenants"]]
        cursor = page["next_cursor"]

    assert found == ["acme", "rival"]
    async with operator.get(TENANTS, params={"cursor": "nonsense!"}) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"id": "acme"}, 409),
        ({"domains": ["acme.example"]}, 409),
        ({"id": "No"}, 400),
        ({"name": ""}, 400),
        ({"owner": "nobody"}, 400),
        ({"usd_per_hour": 0}, 400),
        ({"usd_per_hour": True}, 400),
        ({"issuers": ["ftp://x"]}, 400),
        ({"clusters": []}, 400),
    ],
)
async def test_a_wrong_tenant_is_rejected_and_nothing_is_made(
    world: World, changes: dict[str, Any], status: int
) -> None:
    operator = await world.operator()

    async with operator.post(TENANTS, json=NEW | changes) as answer:
        assert answer.status == status, await answer.text()

    async with operator.get(f"{TENANTS}/lab") as answer:
        assert answer.status == 404


async def test_a_key_makes_a_tenant_once(world: World) -> None:
    operator = await world.operator()
    headers = {"Idempotency-Key": "tenant-of-the-lab"}
    async with operator.post(TENANTS, json=NEW, headers=headers) as answer:
        assert answer.status == 201

    async with operator.post(TENANTS, json=NEW, headers=headers) as answer:
        assert answer.status == 409
        assert "shown only then" in await answer.text()


async def test_a_tenant_is_changed_and_gives_a_domain_back(world: World) -> None:
    operator = await world.operator()
    await made(world)

    async with operator.patch(f"{TENANTS}/lab", json={"name": "Labs", "domains": ["labs.example"]}) as answer:
        changed = await answer.json()
    async with operator.post(TENANTS, json=NEW | {"id": "other"}) as answer:
        status = answer.status

    assert changed["domains"] == ["labs.example"]
    assert status == 201, "lab.example is free again"


async def test_a_tenant_gets_no_domain_of_another(world: World) -> None:
    operator = await world.operator()
    await made(world)

    async with operator.patch(f"{TENANTS}/lab", json={"domains": ["acme.example"]}) as answer:
        status = answer.status

    assert status == 409


async def test_a_tenant_that_is_none_is_not_changed(world: World) -> None:
    operator = await world.operator()

    async with operator.patch(f"{TENANTS}/none", json={"name": "x"}) as answer:
        status = answer.status

    assert status == 404


async def test_the_agent_key_of_a_new_cluster_is_not_stored(world: World) -> None:
    operator = await world.operator()
    await made(world)

    async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING) as answer:
        status, bound = answer.status, await answer.json()

    assert status == 201, bound
    assert bound["agent_key"] not in repr(world.store._tables)


async def test_a_cluster_is_bound_once(world: World) -> None:
    operator = await world.operator()
    await made(world)
    async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING) as answer:
        assert answer.status == 201, await answer.text()

    async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING) as answer:
        status = answer.status

    assert status == 409


async def test_a_bound_cluster_is_served(world: World) -> None:
    operator = await world.operator()
    await made(world)
    person = await world.login("ada@lab.example")

    async def served() -> bool:
        async with person.get("/v1/clusters") as answer:
            return "main" in [each["id"] for each in (await answer.json())["clusters"]]

    async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING) as answer:
        assert answer.status == 201, await answer.text()
    await until(served, seconds=30, what="the new cluster in the registry", every=0.05)
    async with operator.get(f"{TENANTS}/lab/clusters/main") as answer:
        shown = await answer.json()

    assert (shown["state"], shown["version"]) == ("active", 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"slurmrestd_url": "slurm.lab.example:6820"},
        {"slurmrestd_url": "http://root:secret@slurm.lab.example"},
        {"jwt_key": "the key itself"},
        {"operator": {"name": "clusterra", "uid": 20001, "gid": 5000}},
        {"policy": {"max_workers": -1}},
        {"agent_key": "env:KEY"},
    ],
)
async def test_a_wrong_binding_is_rejected_where_it_is_written(world: World, changes: dict[str, Any]) -> None:
    operator = await world.operator()

    async with operator.post(f"{TENANTS}/acme/clusters", json=BINDING | {"id": "new"} | changes) as answer:
        text = await answer.text()
        assert answer.status == 400, text

    assert "root:secret" not in text
    async with operator.get(f"{TENANTS}/acme/clusters") as answer:
        assert [each["id"] for each in (await answer.json())["clusters"]] == ["main"]


MOVED = {name: value for name, value in BINDING.items() if name != "id"} | {
    "name": "Moved",
    "slurmrestd_url": "http://127.0.0.1:2",
    "policy": {"usd_per_hour": 2},
}


async def made_clusters(world: World) -> str:
    """The path of one of the two clusters of a new tenant that may spend 12 USD an hour."""
    await made(world, usd_per_hour=12)
    operator = await world.operator()
    for cluster in ("main", "other"):
        async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING | {"id": cluster}) as answer:
            assert answer.status == 201, await answer.text()
    return f"{TENANTS}/lab/clusters/main"


async def test_a_cluster_gets_another_binding_and_stays_paused(world: World) -> None:
    cluster, operator = await made_clusters(world), await world.operator()
    async with operator.patch(cluster, json={"state": "paused"}) as answer:
        assert answer.status == 200, await answer.text()

    async with operator.put(cluster, json=MOVED) as answer:
        changed = await answer.json()

    assert (changed["name"], changed["slurmrestd_url"], changed["state"]) == ("Moved", "http://127.0.0.1:2", "paused")


async def test_the_same_binding_again_changes_nothing(world: World) -> None:
    cluster, operator = await made_clusters(world), await world.operator()
    async with operator.put(cluster, json=MOVED) as answer:
        changed = await answer.json()

    async with operator.put(cluster, json=MOVED) as answer:
        again = await answer.json()

    assert again == changed


async def test_the_services_know_the_smaller_shares_of_the_others_with_the_new_cluster(world: World) -> None:
    await made_clusters(world)

    found = await last(world.client, "KV_registry", "$KV.registry.lab.main", ClusterBinding)

    assert found is not None
    assert found[0].policy.usd_per_hour == 6


async def test_the_services_know_the_shares_of_a_new_cap(world: World) -> None:
    await made_clusters(world)

    async with (await world.operator()).patch(f"{TENANTS}/lab", json={"usd_per_hour": 4}) as answer:
        assert answer.status == 200, await answer.text()

    found = await last(world.client, "KV_registry", "$KV.registry.lab.main", ClusterBinding)
    assert found is not None
    assert found[0].policy.usd_per_hour == 2


async def test_the_cap_of_a_tenant_follows_the_policy_of_a_cluster(world: World) -> None:
    cluster, operator = await made_clusters(world), await world.operator()

    async with operator.put(cluster, json=MOVED) as answer:
        status = answer.status

    assert status == 200
    assert await caps(world, "lab") == {"main": 2, "other": 10}


@pytest.mark.parametrize(
    ("cluster", "changes", "status"),
    [
        ("none", {}, 404),
        ("main", {"slurmrestd_url": "slurm:6820"}, 400),
        ("main", {"id": "other"}, 400),
        ("main", {"identity_source": "none"}, 400),
    ],
)
async def test_a_wrong_binding_replaces_none(world: World, cluster: str, changes: dict[str, Any], status: int) -> None:
    operator = await world.operator()
    async with operator.get(f"{TENANTS}/acme/clusters") as answer:
        before = await answer.json()
    wanted = {name: value for name, value in BINDING.items() if name != "id"} | changes

    async with operator.put(f"{TENANTS}/acme/clusters/{cluster}", json=wanted) as answer:
        assert answer.status == status, await answer.text()

    async with operator.get(f"{TENANTS}/acme/clusters") as answer:
        assert await answer.json() == before


@pytest.mark.parametrize(
    ("tenant_cap", "status", "expected"),
    [
        (12, 200, {"one": 5, "own": 2, "two": 5}),
        (4, 200, {"one": 1, "own": 2, "two": 1}),
        (2, 409, {"one": 5, "own": 2, "two": 5}),
        (None, 200, {"one": None, "own": 2, "two": None}),
    ],
)
async def test_a_tenants_cap_is_shared_out_between_the_clusters_without_their_own(
    world: World, tenant_cap: int | None, status: int, expected: dict[str, int | None]
) -> None:
    operator = await world.operator()
    await made(world, usd_per_hour=12)
    for cluster, cap in (("one", None), ("two", None), ("own", 2)):
        policy = {"policy": {"usd_per_hour": cap}}
        async with operator.post(f"{TENANTS}/lab/clusters", json=BINDING | {"id": cluster} | policy) as answer:
            assert answer.status == 201, await answer.text()

    async with operator.patch(f"{TENANTS}/lab", json={"usd_per_hour": tenant_cap}) as answer:
        told = answer.status

    assert told == status
    assert await caps(world, "lab") == expected


async def caps(world: World, tenant: str) -> dict[str, float | None]:
    async with (await world.operator()).get(f"{TENANTS}/{tenant}/clusters") as answer:
        return {each["id"]: each["policy"]["usd_per_hour"] for each in (await answer.json())["clusters"]}


async def test_an_operator_pauses_a_cluster_and_rotates_its_key_and_the_events_name_them(world: World) -> None:
    operator, boss = await world.operator(), await world.login("boss@acme.example")
    cluster = f"{TENANTS}/acme/clusters/main"
    async with boss.get("/v1/clusters/main/events/stream") as stream:
        async with operator.patch(cluster, json={"state": "paused"}) as answer:
            assert (await answer.json())["changed"]
        async with operator.post(f"{cluster}/agent-keys", json={}) as answer:
            assert answer.status == 201, await answer.text()
        received = b""
        while b"cluster.agent_key_rotated" not in received:
            received += await stream.content.readany()

    assert received.replace(b" ", b"").count(b'"actor":"operator:anna"') == 2
    async with operator.patch(cluster, json={"state": "active"}) as answer:
        assert (await answer.json())["changed"]


async def test_an_operator_reads_with_one_scope_and_writes_with_the_other(world: World) -> None:
    rita = await world.operator("rita")

    for route in route_table():
        if isinstance(route, OperatorRoute):
            async with rita.request(route.method, example_path(route), json={}) as answer:
                text = await answer.text()
            assert ("lacks the scope" in text) == (route.scope == "tenants:write"), (route.name, text)
            assert route.role == OPERATOR_ROLE
            assert route.scope in OPERATOR_SCOPES


async def test_a_token_that_leaves_the_file_is_refused_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_operators(tmp_path / "operators.yaml", "anna", "rita")
    known = Operators(file)
    assert (await known.operator(TOKENS["rita"])).actor == "operator:rita"
    write_operators(file, "anna")
    monkeypatch.setattr(operators, "FILE_SECONDS", 0.0)

    with pytest.raises(Unauthenticated):
        await known.operator(TOKENS["rita"])

    file.write_text("operators: [")
    assert (await known.operator(TOKENS["anna"])).name == "anna", "a mistake in the file shuts nobody out"


@pytest.mark.parametrize(
    "text", ["operators: [", "operators: [{name: a}]", "x: 1", "operators: [{name: a, token: clusterra-operator_x}]"]
)
def test_a_wrong_file_of_operators_ends_the_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "operators.yaml"
    file.write_text(text)

    with pytest.raises(SettingsFileInvalid) as raised:
        Operators(file)

    assert str(file) in str(raised.value)
    assert "operator_x" not in str(raised.value)


def test_no_operator_exists_without_the_file() -> None:
    assert Operators(None)._known == ()


async def test_the_tenants_of_provision_are_the_same_as_those_of_the_api(world: World) -> None:
    async with (await world.operator()).get(f"{TENANTS}/acme/clusters/main") as answer:
        shown = await answer.json()

    assert shown["name"] == "main of acme"
    assert ClusterRef(tenant="acme", cluster=shown["id"]) == world.acme.ref
