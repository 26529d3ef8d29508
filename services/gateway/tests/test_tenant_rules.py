"""A provision file and operators' requests keep the same rules: what one of them refuses or tells, the other does."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, KEPT_EVENTS, tenant_key
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.tenants.models import CreateTenant
from clusterra_gateway.tenants.shares import give_share_back
from clusterra_gateway.tenants.specification import BindingFields, ClusterFields, ProvisionFile, TenantSpecification
from clusterra_gateway.tenants.tenant_clusters import TenantClusters
from clusterra_gateway.tenants.tenants import Tenants
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put, Update, Write
from gateway_world import CATALOGUE, apply_file, provisioned
from pydantic import ValidationError

MAIN, MORE = (ClusterRef(tenant="acme", cluster=name) for name in ("main", "more"))

type Way = Callable[[Directory, dict[str, Any]], Awaitable[None]]


@pytest.fixture
async def directory() -> AsyncIterator[Directory]:
    async def publish(*_message: object) -> None:
        pass

    async with MemoryStore() as store, Outbox(store, publish) as outbox:
        await store.create_tables(ACCOUNTS)
        yield Directory(store, outbox)


async def by_file(directory: Directory, tenant: dict[str, Any]) -> None:
    await apply_file(directory, tenant)


async def by_requests(directory: Directory, tenant: dict[str, Any]) -> None:
    """What an operator asks for over HTTP to have this tenant."""
    given = TenantSpecification.model_validate(tenant)
    fields = given.model_dump(include={"name", "domains", "issuers", "usd_per_hour"})
    tenants, clusters = Tenants(directory, Registry()), TenantClusters(directory, Registry(), CATALOGUE)
    if given.id in {name for name, _ in (await tenants.page(limit=10, cursor=None))[0]}:
        await tenants.change(given.id, lambda known: known.model_copy(update=fields), by="operator:anna")
    else:
        await tenants.create(given.id, Tenant(**fields), by="operator:anna")
    known = await clusters.list(given.id)
    for cluster in given.clusters:
        fields, ref = cluster.model_dump(exclude={"agent_key", "id"}), ClusterRef(tenant=given.id, cluster=cluster.id)
        if ref in known:
            await clusters.rebind(ref, BindingFields(**fields), by="operator:anna")
        else:
            await clusters.bind(given.id, ClusterFields(id=cluster.id, **fields), cluster.id, by="operator:anna")


ways = pytest.mark.parametrize("way", [by_file, by_requests])


async def told(directory: Directory) -> list[str]:
    """The kinds of the facts that wait for the history of the tenant's first cluster."""
    page = await directory.store.query(ACCOUNTS, tenant_key("acme").pk, sort=KEPT_EVENTS)
    return [AdminFact.model_validate_json(str(item.attributes["fact"])).kind for item in page.items]


@ways
async def test_a_new_tenant_is_told(directory: Directory, way: Way) -> None:
    await way(directory, provisioned("acme"))

    assert await told(directory) == ["tenant.created"]


@ways
async def test_a_changed_tenant_is_told_once(directory: Directory, way: Way) -> None:
    await way(directory, provisioned("acme"))

    for _ in range(2):
        await way(directory, provisioned("acme") | {"name": "Acme Labs"})

    assert await told(directory) == ["tenant.created", "tenant.changed"]


@ways
async def test_a_new_cluster_is_no_change_of_its_tenant(directory: Directory, way: Way) -> None:
    await way(directory, provisioned("acme", "main"))

    await way(directory, provisioned("acme", "main", "more"))

    assert await told(directory) == ["tenant.created"]


@ways
async def test_a_tenant_that_asks_for_a_domain_of_another_gets_none(directory: Directory, way: Way) -> None:
    await way(directory, provisioned("rival"))
    await way(directory, provisioned("acme"))

    with pytest.raises(Conflict, match="belongs to tenant rival"):
        await way(directory, provisioned("acme") | {"domains": ["new.example", "rival.example"], "name": "New"})

    assert await directory.domain("new.example") is None
    assert await told(directory) == ["tenant.created"]


BUCKET = {
    "bucket": "acme-files",
    "region": "us-east-1",
    "credentials": {"kind": "keys", "access_key_id": "file:/none", "secret_access_key": "file:/none"},
}


@ways
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slurmrestd_url", "http://169.254.169.254"),
        ("slurmrestd_url", "http://2852039166/latest"),
        ("slurmrestd_url", "http://[fd00:ec2::254]:6820"),
        ("storage", BUCKET | {"endpoint": "http://169.254.169.254"}),
        ("storage", BUCKET | {"endpoint": "http://127.0.0.1:9000", "public_endpoint": "https://[fe80::1]"}),
    ],
)
async def test_an_address_of_a_metadata_service_is_refused(
    directory: Directory, way: Way, field: str, value: object
) -> None:
    wanted = provisioned("acme", "main")
    wanted["clusters"] = [{**wanted["clusters"][0], field: value}]  # type: ignore[index]

    with pytest.raises(InvalidRequest, match=rf"{field}.*metadata service"):
        await way(directory, wanted)

    assert await directory.clusters() == {}


@ways
async def test_a_cluster_keeps_its_address_where_a_new_one_is_refused(directory: Directory, way: Way) -> None:
    await way(directory, provisioned("acme", "main"))
    wanted = provisioned("acme", "main")
    wanted["clusters"] = [{**wanted["clusters"][0], "slurmrestd_url": "http://169.254.169.254"}]  # type: ignore[index]

    with pytest.raises(InvalidRequest, match="metadata service"):
        await way(directory, wanted)

    assert (await directory.clusters())[MAIN].slurmrestd_url == "http://127.0.0.1:1"


@ways
async def test_a_cluster_is_bound_since_it_has_its_address(directory: Directory, way: Way) -> None:
    wanted = provisioned("acme", "main")
    given = wanted["clusters"][0]  # type: ignore[index]
    bound = []

    for changes in ({}, {"name": "Renamed"}, {"slurmrestd_url": "http://127.0.0.1:2"}):
        await way(directory, wanted | {"clusters": [given | changes]})
        bound.append((await directory.clusters())[MAIN].bound_at)

    first, renamed, moved = bound
    assert first is not None
    assert renamed == first
    assert moved is not None
    assert moved > first


async def test_a_directory_at_an_address_of_a_metadata_service_is_refused(directory: Directory) -> None:
    ldap = {"kind": "ldap", "url": "ldap://169.254.169.254:80", "users_base": "ou=people"}

    with pytest.raises(InvalidRequest, match=r"identity_sources\.site\.url.*metadata service"):
        await by_file(directory, provisioned("acme") | {"identity_sources": {"site": ldap}})


async def test_new_issuers_are_those_of_every_domain_of_the_tenant(directory: Directory) -> None:
    issuers = ["https://id.acme.example"]
    await by_requests(directory, provisioned("acme") | {"domains": ["acme.example", "acme.test"]})

    await by_file(directory, provisioned("acme") | {"issuers": issuers})

    domains = [await directory.domain(name) for name in ("acme.example", "acme.test")]
    assert [domain and domain.issuers for domain in domains] == [tuple(issuers), tuple(issuers)]


async def test_issuers_that_a_file_does_not_name_stay(directory: Directory) -> None:
    issuers = ["https://id.acme.example"]
    await by_file(directory, provisioned("acme") | {"issuers": issuers})

    await by_file(directory, provisioned("acme") | {"name": "Acme & Co"})

    domain = await directory.domain("acme.example")
    assert domain is not None
    assert domain.issuers == tuple(issuers)


@ways
async def test_clusters_never_have_more_than_the_cap_of_their_tenant(
    directory: Directory, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not while a cluster is added: the others shrink first."""
    await way(directory, provisioned("acme", "main") | {"usd_per_hour": 12})
    write, transact, together = directory.store.write, directory.store.transact, list[float]()

    async def watch() -> None:
        caps = [binding.policy.usd_per_hour or 0 for binding in (await directory.clusters()).values()]
        together.append(sum(caps))

    async def written(wanted: Put | Update) -> Item:
        item = await write(wanted)
        await watch()
        return item

    async def transacted(writes: Sequence[Write], *, token: str) -> None:
        await transact(writes, token=token)
        await watch()

    with monkeypatch.context() as patched:
        patched.setattr(directory.store, "write", written)
        patched.setattr(directory.store, "transact", transacted)
        await way(directory, provisioned("acme", "main", "more") | {"usd_per_hour": 12})

    clusters = await directory.clusters()
    assert {ref: binding.policy.usd_per_hour for ref, binding in clusters.items()} == {MAIN: 6, MORE: 6}
    assert max(together) <= 12, together


@ways
async def test_a_change_that_is_overtaken_again_and_again_leaves_nothing(
    directory: Directory, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    await way(directory, provisioned("acme"))
    transact = directory.store.transact

    async def overtaken(writes: Sequence[Write], *, token: str) -> None:
        await directory.store.write(Update(ACCOUNTS, tenant_key("acme")))
        await transact(writes, token=token)

    monkeypatch.setattr(directory.store, "transact", overtaken)
    with pytest.raises(Conflict, match="others are changing the tenant"):
        await way(directory, provisioned("acme") | {"domains": ["acme.example", "new.example"], "name": "New"})

    assert await directory.domain("new.example") is None
    assert await told(directory) == ["tenant.created"]


async def test_a_cluster_that_is_removed_meanwhile_refuses_no_change_of_its_tenant(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await by_requests(directory, provisioned("acme", "main", "more") | {"usd_per_hour": 12})
    change_cluster = directory.change_cluster

    async def removed_first(ref: ClusterRef, *wanted: Any, **options: Any) -> int | None:
        await TenantClusters(directory, Registry(), None).remove(MORE)
        return await change_cluster(ref, *wanted, **options)

    monkeypatch.setattr(directory, "change_cluster", removed_first)
    await Tenants(directory, Registry()).change(
        "acme", lambda known: known.model_copy(update={"usd_per_hour": 10.0}), by="operator:anna"
    )

    clusters = await directory.clusters()
    assert {ref: binding.policy.usd_per_hour for ref, binding in clusters.items()} == {MAIN: 5}


async def test_a_cluster_is_not_bound_with_the_share_of_a_cap_that_was_lowered_meanwhile(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the change of the cap would be refused after it was written."""
    own_cap = {"policy": {"usd_per_hour": 6}}
    wanted: dict[str, Any] = provisioned("acme", "main", "more") | {"usd_per_hour": 12}
    wanted["clusters"] = [each | own_cap for each in wanted["clusters"]]
    await by_requests(directory, wanted | {"clusters": wanted["clusters"][:1]})
    change_cluster = directory.change_cluster

    async def lowered_first(ref: ClusterRef, *given: Any, **options: Any) -> int | None:
        await Tenants(directory, Registry()).change(
            "acme", lambda known: known.model_copy(update={"usd_per_hour": 8.0}), by="operator:anna"
        )
        return await change_cluster(ref, *given, **options)

    monkeypatch.setattr(directory, "change_cluster", lowered_first)
    fields = ClusterFields.model_validate({**wanted["clusters"][1]})
    with pytest.raises(Conflict, match="the clusters' own caps take 12 USD"):
        await TenantClusters(directory, Registry(), CATALOGUE).bind("acme", fields, "key", by="operator:anna")

    assert set(await directory.clusters()) == {MAIN}


async def test_the_others_get_the_share_of_a_removed_cluster(directory: Directory) -> None:
    await by_file(directory, provisioned("acme", "main", "more") | {"usd_per_hour": 12})

    await TenantClusters(directory, Registry(), None).remove(MORE)
    await give_share_back(directory, Registry(), MORE)

    clusters = await directory.clusters()
    assert {ref: binding.policy.usd_per_hour for ref, binding in clusters.items()} == {MAIN: 12}


async def test_a_wrong_binding_leaves_the_shares_of_the_others(directory: Directory) -> None:
    """A file with a mistake is not applied at all: its plan fails first."""
    await by_requests(directory, provisioned("acme", "main") | {"usd_per_hour": 12})
    wrong: dict[str, Any] = provisioned("acme", "main", "more") | {"usd_per_hour": 12}
    wrong["clusters"][1]["operator"]["uid"] = 20_001

    with pytest.raises(InvalidRequest, match="has uid 20001"):
        await by_requests(directory, wrong)

    clusters = await directory.clusters()
    assert {ref: binding.policy.usd_per_hour for ref, binding in clusters.items()} == {MAIN: 12}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 201},
        {"domains": ["a b"]},
        {"domains": [f"d{number}.example" for number in range(51)]},
        {"issuers": ["ftp://x"]},
        {"usd_per_hour": 0},
        {"usd_per_hour": True},
    ],
)
def test_what_a_request_may_not_name_a_file_may_not_either(wrong: dict[str, Any]) -> None:
    tenant = {"id": "acme", "name": "Acme"} | wrong

    with pytest.raises(ValidationError):
        CreateTenant.model_validate(tenant | {"owner": "head@acme.example"})
    with pytest.raises(ValidationError):
        ProvisionFile.model_validate({"tenants": [tenant]})
