"""What a provision file may say, and that saying it again changes nothing."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.directory import ACCOUNTS, Directory
from clusterra_gateway.errors import Conflict, InvalidRequest, Refused
from clusterra_gateway.provision import Given, Provisioning, read
from clusterra_runtime.memory_store import MemoryStore
from clusterra_runtime.outbox import Outbox
from gateway_world import CATALOGUE, provisioned

MAIN = ClusterRef(tenant="acme", cluster="main")


@pytest.fixture
async def directory() -> AsyncIterator[Directory]:
    async def publish(*_message: object) -> None:
        pass

    async with MemoryStore() as store, Outbox(store, publish) as outbox:
        await store.create_tables(ACCOUNTS)
        yield Directory(store, outbox)


async def applied(directory: Directory, *tenants: dict[str, Any]) -> list[str]:
    provisioning = Provisioning(directory, CATALOGUE)
    await provisioning.apply(Given.model_validate({"tenants": tenants}))
    return provisioning.changes


def with_cluster(tenant: dict[str, Any], **fields: Any) -> dict[str, Any]:
    (cluster,) = tenant["clusters"]
    return tenant | {"clusters": [cluster | fields]}


async def test_applying_again_changes_nothing(directory: Directory) -> None:
    acme = provisioned("acme", "main", admins=("boss@acme.example",))
    assert await applied(directory, acme)
    before = await directory.clusters()
    assert await applied(directory, acme) == []
    assert await directory.clusters() == before
    assert before[MAIN].version == 1


async def test_a_change_makes_the_next_version(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await applied(directory, acme)
    assert await applied(directory, with_cluster(acme, name="renamed")) == ["cluster acme/main: version 2"]
    binding = (await directory.clusters())[MAIN]
    assert (binding.name, binding.version) == ("renamed", 2)


async def test_an_admin_can_be_made_a_member_again(directory: Directory) -> None:
    await applied(directory, provisioned("acme", admins=("boss@acme.example",)))
    await applied(directory, provisioned("acme") | {"members": ["BOSS@acme.example"]})
    invitation = await directory.invitation("boss@acme.example")
    assert invitation is not None
    assert not invitation.admin


async def test_what_belongs_to_another_tenant_is_not_taken(directory: Directory) -> None:
    await applied(directory, provisioned("acme", admins=("boss@acme.example",)))
    for stolen in ({"domains": ["ACME.example"]}, {"admins": ["boss@acme.example"]}):
        with pytest.raises(Conflict, match="belongs to tenant acme"):
            await applied(directory, provisioned("thief") | stolen)


@pytest.mark.parametrize("uid", [20001, 30000])
async def test_an_operator_has_a_uid_that_no_person_can_get(directory: Directory, uid: int) -> None:
    operator = {"name": "clusterra", "uid": uid, "gid": 5000}
    with pytest.raises(InvalidRequest, match=str(uid)):
        await applied(directory, with_cluster(provisioned("acme", "main"), operator=operator))
    assert await directory.clusters() == {}


async def test_an_operators_name_has_one_uid_for_good(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await applied(directory, acme)
    operator = {"name": "clusterra", "uid": 5001, "gid": 5001}
    with pytest.raises(Conflict, match="clusterra"):
        await applied(directory, with_cluster(acme, operator=operator))


@pytest.mark.parametrize(
    "content",
    [
        "tenants: [",
        "tenants: []",
        "tenants: [{id: Bad_Id, name: x}]",
        "tenants: [{id: x, name: x, surprise: 1}]",
        "tenants: [{id: x, name: x, domains: ['a b']}]",
        "tenants: [{id: x, name: x, clusters: [{id: '*', name: x}]}]",
        "[]",
    ],
)
def test_a_file_that_is_none_is_told_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(content)
    with pytest.raises(Refused, match=r"tenants\.yaml"):
        read(file)
    with pytest.raises(Refused, match=r"none\.yaml"):
        read(tmp_path / "none.yaml")


async def test_a_cluster_needs_shapes(directory: Directory) -> None:
    with pytest.raises(InvalidRequest, match="catalogue"):
        await Provisioning(directory, None).apply(Given.model_validate({"tenants": [provisioned("acme", "main")]}))
    own = yaml.safe_load(yaml.safe_dump(CATALOGUE.model_dump(mode="json")))
    given = with_cluster(provisioned("acme", "main"), catalogue=own)
    await Provisioning(directory, None).apply(Given.model_validate({"tenants": [given]}))
    assert (await directory.clusters())[MAIN].catalogue == CATALOGUE
