"""Provision files: what they may contain, and that applying one again changes nothing."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from admin_command import admin
from aiohttp.test_utils import make_mocked_request
from clusterra_admin.provision.changes import change_of
from clusterra_admin.provision.draft import is_bookkeeping
from clusterra_admin.provision.file import read
from clusterra_contracts.agent_http import KEY_HEADER, new_key
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_key, tenant_key
from clusterra_gateway.accounts.records import Tenant, TenantDeletion, expiry
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, AgentKeys, rotate_agent_key
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, RequestError, Unauthenticated
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.provisioning import Provisioning
from clusterra_gateway.tenants.specification import ProvisionFile
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.optimistic_write import ATTEMPTS
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import without_messages
from clusterra_runtime.store.store import Put, Table, Update
from gateway_world import CATALOGUE, apply_file, provisioned
from pydantic import ValidationError

MAIN = ClusterRef(tenant="acme", cluster="main")


@pytest.fixture
async def directory() -> AsyncIterator[Directory]:
    async def publish(*_message: object) -> None:
        pass

    async with MemoryStore() as store, Outbox(store, publish) as outbox:
        await store.create_tables(ACCOUNTS)
        yield Directory(store, outbox)


async def apply(directory: Directory, *tenants: dict[str, Any]) -> set[str]:
    """Apply a file. Return what has changed in the record, as a plan names it."""
    before = items(directory)
    await apply_file(directory, *tenants)
    after = items(directory)
    changed = [key for key in before | after if before.get(key) != after.get(key) and not is_bookkeeping(key)]
    return {change_of(key, before.get(key), after.get(key)).lines()[0] for key in changed}


def items(directory: Directory) -> dict[Key, Item]:
    """What the record holds, without versions and events."""
    assert isinstance(directory.store, MemoryStore)
    partitions = directory.store._tables[ACCOUNTS.name].values()
    found = [item for partition in partitions for item in partition.values()]
    return {item.key: Item(item.key, without_messages(item.attributes), 0) for item in found}


def with_cluster(tenant: dict[str, Any], **fields: Any) -> dict[str, Any]:
    (cluster,) = tenant["clusters"]
    return tenant | {"clusters": [cluster | fields]}


async def test_applying_again_changes_nothing(directory: Directory) -> None:
    acme = provisioned("acme", "main", admins=("boss@acme.example",))
    assert await apply(directory, acme)
    before = await directory.clusters()

    assert await apply(directory, acme) == set()
    assert await directory.clusters() == before
    assert before[MAIN].version == 1


async def test_a_changed_cluster_gets_the_next_version(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)

    assert await apply(directory, with_cluster(acme, name="renamed")) == {"~ cluster acme/main"}
    binding = (await directory.clusters())[MAIN]
    assert (binding.name, binding.version) == ("renamed", 2)


async def test_the_only_cluster_gets_the_whole_cap_of_the_tenant(directory: Directory) -> None:
    await apply(directory, provisioned("acme", "main") | {"usd_per_hour": 12.5})
    assert (await directory.clusters())[MAIN].policy.usd_per_hour == 12.5


async def test_an_admin_can_be_made_a_member_again(directory: Directory) -> None:
    await apply(directory, provisioned("acme", admins=("boss@acme.example",)))

    await apply(directory, provisioned("acme") | {"members": ["BOSS@acme.example"]})

    invitation = await directory.invitation("boss@acme.example")
    assert invitation is not None
    assert not invitation.admin


async def test_an_admin_can_be_made_an_owner_and_is_an_admin_to_the_release_before(directory: Directory) -> None:
    await apply(directory, provisioned("acme", admins=("boss@acme.example",)))

    changes = await apply(directory, provisioned("acme") | {"owners": ["Boss@acme.example"]})

    invitation = await directory.invitation("boss@acme.example")
    assert changes == {"~ invitation of boss@acme.example"}
    assert invitation is not None
    assert (invitation.role, invitation.admin) == ("owner", True)


async def test_domains_are_bound_to_the_issuers_of_their_tenant(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)
    bound = acme | {"issuers": ["https://id.acme.example"]}

    assert await apply(directory, bound) == {"~ tenant acme", "~ domain acme.example"}
    assert await apply(directory, bound) == set()

    domain = await directory.domain("acme.example")
    assert domain is not None
    assert domain.issuers == ("https://id.acme.example",)


async def test_domains_and_addresses_of_another_tenant_are_rejected(directory: Directory) -> None:
    await apply(directory, provisioned("acme", admins=("boss@acme.example",)))

    for stolen in ({"domains": ["ACME.example"]}, {"admins": ["boss@acme.example"]}):
        with pytest.raises(Conflict, match="belongs to tenant acme"):
            await apply(directory, provisioned("thief") | stolen)


@pytest.mark.parametrize("inviter_first", [True, False])
async def test_an_address_in_the_domain_of_another_tenant_cannot_be_invited(
    directory: Directory, inviter_first: bool
) -> None:
    rival, acme = provisioned("rival") | {"members": ["Grace@ACME.example"]}, provisioned("acme")

    with pytest.raises(Conflict, match=r"rival cannot invite grace@acme\.example.* belongs to tenant acme"):
        await apply(directory, *((rival, acme) if inviter_first else (acme, rival)))

    assert await directory.invitation("grace@acme.example") is None


async def test_changes_of_one_cluster_at_the_same_time_do_not_undo_each_other(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)

    async def pause() -> None:
        await directory.change_cluster(MAIN, lambda now: now.model_copy(update={"state": "paused"}))  # type: ignore[union-attr]

    await between_read_and_write(directory, pause, apply(directory, with_cluster(acme, name="renamed")))

    binding = (await directory.clusters())[MAIN]
    assert (binding.name, binding.state, binding.version) == ("renamed", "paused", 3)


async def test_a_cluster_that_changes_all_the_time_is_given_up(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)

    async def bump() -> None:
        await directory.store.write(Update(ACCOUNTS, cluster_key(MAIN), add={"touched": 1}))

    with pytest.raises(Conflict, match="others are changing"):
        await between_read_and_write(
            directory, bump, apply(directory, with_cluster(acme, name="renamed")), times=ATTEMPTS
        )

    assert (await directory.clusters())[MAIN].version == 1


async def between_read_and_write(
    directory: Directory, other: Callable[[], Awaitable[None]], change: Awaitable[object], times: int = 1
) -> None:
    """Runs `change`; after each of its first reads of the cluster for a write, `other` has its turn."""
    get, left, share_known = directory.store.get, times, False

    async def interrupted(table: Table, key: Key) -> Item | None:
        nonlocal left, share_known
        item = await get(table, key)
        if key == cluster_key(MAIN) and not share_known:
            share_known = True  # the first read looks only at its share of the tenant's cap
        elif key == cluster_key(MAIN) and left:
            left -= 1
            with pytest.MonkeyPatch.context() as itself:
                itself.setattr(directory.store, "get", get)
                await other()
        return item

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory.store, "get", interrupted)
        await change
    assert not left


@pytest.mark.parametrize("uid", [20001, 30000])
async def test_an_operator_with_a_uid_for_people_is_rejected(directory: Directory, uid: int) -> None:
    operator = {"name": "clusterra", "uid": uid, "gid": 5000}
    with pytest.raises(InvalidRequest, match=str(uid)):
        await apply(directory, with_cluster(provisioned("acme", "main"), operator=operator))
    assert await directory.clusters() == {}


async def test_an_operators_uid_cannot_change(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)

    operator = {"name": "clusterra", "uid": 5001, "gid": 5001}
    with pytest.raises(Conflict, match="clusterra"):
        await apply(directory, with_cluster(acme, operator=operator))


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
def test_the_error_names_an_invalid_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(content)

    with pytest.raises(RequestError, match=r"tenants\.yaml"):
        read(file)
    with pytest.raises(RequestError, match=r"none\.yaml"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"tenants: [\xff\xfe]", "not text in UTF-8"),
        (b"[" * 5000, "nested too deeply"),
        (b"tenants: 2020-13-45", "not valid YAML"),
        (b'tenants: ["hunter2', "not valid YAML in line"),
    ],
)
def test_a_file_that_is_no_yaml_is_an_error_without_its_content(tmp_path: Path, content: bytes, error: str) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_bytes(content)

    with pytest.raises(InvalidRequest, match=error) as raised:
        read(file)
    assert "hunter2" not in str(raised.value)


def test_a_secret_in_place_of_a_reference_is_not_printed(tmp_path: Path) -> None:
    given = {"tenants": [with_cluster(provisioned("acme", "main"), jwt_key="hunter2")]}
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump(given))

    with pytest.raises(ValidationError) as raised:
        ProvisionFile.model_validate(given)
    with pytest.raises(InvalidRequest) as told:
        read(tmp_path / "tenants.yaml")

    assert "hunter2" not in f"{raised.value} {told.value}"


STORAGE = {
    "bucket": "acme-files",
    "region": "us-east-1",
    "credentials": {"kind": "keys", "access_key_id": "file:/etc/id", "secret_access_key": "file:/etc/secret"},
}


async def test_the_storage_of_a_cluster_is_given_changed_and_taken(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, with_cluster(acme, storage=STORAGE))

    assert await apply(directory, with_cluster(acme, storage=STORAGE)) == set()
    assert await apply(directory, with_cluster(acme, storage=STORAGE | {"bucket": "acme-more"}))
    binding = (await directory.clusters())[MAIN]
    assert binding.storage is not None
    assert (binding.storage.bucket, binding.version) == ("acme-more", 2)
    assert await apply(directory, acme)
    assert (await directory.clusters())[MAIN].storage is None


@pytest.mark.parametrize(
    ("storage", "error"),
    [
        (STORAGE | {"bucket": "No_Bucket"}, "storage.bucket"),
        (STORAGE | {"endpont": "http://minio:9000"}, "unknown fields: endpont"),
        (STORAGE | {"credentials": STORAGE["credentials"] | {"token": "hunter2"}}, "unknown fields: token"),  # type: ignore[operator]
        (STORAGE | {"credentials": {"kind": "keys", "access_key_id": "hunter2"}}, "access_key_id"),
        (STORAGE | {"credentials": {}}, "kind"),
    ],
)
def test_a_mistake_in_the_storage_is_named_without_a_secret(
    tmp_path: Path, storage: dict[str, Any], error: str
) -> None:
    given = {"tenants": [with_cluster(provisioned("acme", "main"), storage=storage)]}
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump(given))

    with pytest.raises(InvalidRequest, match=error) as told:
        read(tmp_path / "tenants.yaml")

    assert "hunter2" not in str(told.value)


def test_a_plan_masks_the_user_and_password_of_an_address() -> None:
    def item(url: str) -> Item:
        return Item(cluster_key(MAIN), {"binding": json.dumps({"slurmrestd_url": url})}, 1)

    change = change_of(cluster_key(MAIN), item("http://u:hunter2@h:1"), item("http://u:p@hunter3@h:2/x"))

    assert change.fields == {"slurmrestd_url": ("http://(hidden)@h:1", "http://(hidden)@h:2/x")}
    assert "hunter" not in " ".join(change.lines())


async def test_a_cluster_needs_a_catalogue(directory: Directory) -> None:
    with pytest.raises(InvalidRequest, match="catalogue"):
        await Provisioning(directory, None, Registry()).apply(
            ProvisionFile.model_validate({"tenants": [provisioned("acme", "main")]})
        )

    own = yaml.safe_load(yaml.safe_dump(CATALOGUE.model_dump(mode="json")))
    given = with_cluster(provisioned("acme", "main"), catalogue=own)
    await Provisioning(directory, None, Registry()).apply(ProvisionFile.model_validate({"tenants": [given]}))
    assert (await directory.clusters())[MAIN].catalogue == CATALOGUE


KEY, CURRENT = "agent key of acme/main", "current agent key of acme/main"
KEY_SET = {f"+ {KEY}", f"+ {CURRENT}"}
KEY_REPLACED = {f"- {KEY}", f"+ {KEY}", f"~ {CURRENT}"}
KEY_REVOKED = {f"- {KEY}", f"- {CURRENT}"}


async def owner_of(directory: Directory, key: str) -> AgentKeyOwner:
    keys = AgentKeys(directory, Registry(), ClientAddresses([]))
    return await keys.owner(make_mocked_request("POST", "/", headers={KEY_HEADER: key}))


def with_agent_key(folder: Path, name: str, key: str) -> dict[str, str]:
    """The field of a cluster whose agent key is in a file."""
    (folder / name).write_text(f"{key}\n")
    return {"agent_key": f"file:{folder / name}"}


async def test_an_agent_key_can_be_set_replaced_and_revoked(directory: Directory, tmp_path: Path) -> None:
    acme, first, second = provisioned("acme", "main"), new_key(), new_key()
    given = with_agent_key(tmp_path, "agent.key", first)

    assert await apply(directory, with_cluster(acme, **given)) >= KEY_SET
    assert (await owner_of(directory, first)).ref == MAIN
    assert await apply(directory, with_cluster(acme, **given)) == set()

    (tmp_path / "agent.key").write_text(second)
    assert await apply(directory, with_cluster(acme, **given)) == KEY_REPLACED
    assert (await owner_of(directory, second)).ref == MAIN
    with pytest.raises(Unauthenticated):
        await owner_of(directory, first)

    assert await apply(directory, acme) == KEY_REVOKED
    with pytest.raises(Unauthenticated):
        await owner_of(directory, second)
    assert await apply(directory, acme) == set()
    assert await apply(directory, with_cluster(acme, **given)) == KEY_SET


async def test_the_file_has_the_last_word_on_a_key_that_was_rotated_over_http(
    directory: Directory, tmp_path: Path
) -> None:
    """Both while the file's key is still valid beside the new one, and after that."""
    acme, first = provisioned("acme", "main"), new_key()
    given = with_cluster(acme, **with_agent_key(tmp_path, "agent.key", first))
    await apply(directory, given)

    for overlap in (timedelta(hours=1), timedelta()):
        rotated = new_key()
        await rotate_agent_key(directory, MAIN, rotated, actor="boss", overlap=overlap)
        assert (await owner_of(directory, rotated)).ref == MAIN

        assert f"~ {CURRENT}" in await apply(directory, given)
        assert (await owner_of(directory, first)).ref == MAIN
        with pytest.raises(Unauthenticated):
            await owner_of(directory, rotated)

    await rotate_agent_key(directory, MAIN, new_key(), actor="boss", overlap=timedelta(hours=1))
    assert await apply(directory, acme) >= KEY_REVOKED
    with pytest.raises(Unauthenticated):
        await owner_of(directory, first)


async def test_only_the_hash_of_an_agent_key_is_stored(directory: Directory, tmp_path: Path) -> None:
    key = new_key()

    changes = await apply(
        directory, with_cluster(provisioned("acme", "main"), **with_agent_key(tmp_path, "agent.key", key))
    )

    assert isinstance(directory.store, MemoryStore)
    assert key.removeprefix("clusterra_agent_") not in repr(directory.store._tables) + repr(changes)


async def test_the_place_of_the_slurm_key_can_change(directory: Directory, tmp_path: Path) -> None:
    acme, key = provisioned("acme", "main"), new_key()
    given = with_agent_key(tmp_path, "agent.key", key)
    await apply(directory, with_cluster(acme, **given))

    moved = with_cluster(acme, **given, slurm_key="file:/etc/slurm/slurm.key")
    assert await apply(directory, moved) == {"~ agent key of acme/main"}
    assert (await owner_of(directory, key)).slurm_key == "file:/etc/slurm/slurm.key"
    assert await apply(directory, moved) == set()

    await apply(directory, with_cluster(acme, **given))
    assert (await owner_of(directory, key)).slurm_key is None


async def test_an_agent_key_belongs_to_one_cluster(directory: Directory, tmp_path: Path) -> None:
    given = with_agent_key(tmp_path, "agent.key", new_key())
    await apply(directory, with_cluster(provisioned("acme", "main"), **given))

    with pytest.raises(Conflict, match="acme/main"):
        await apply(directory, with_cluster(provisioned("thief", "main"), **given))


async def test_invalid_agent_keys_are_rejected(directory: Directory, tmp_path: Path) -> None:
    acme = provisioned("acme", "main")

    for wrong in ("", "secret", new_key()[:-1], f"{new_key()} {new_key()}"):
        with pytest.raises(InvalidRequest, match=r"agent\.key"):
            await apply(directory, with_cluster(acme, **with_agent_key(tmp_path, "agent.key", wrong)))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await apply(directory, with_cluster(acme, agent_key=f"file:{tmp_path}/none"))
    with pytest.raises(ValueError, match="agent_key"):
        await apply(directory, with_cluster(acme, slurm_key="file:/etc/slurm/slurm.key"))


async def test_a_generated_agent_key_is_accepted(directory: Directory, tmp_path: Path) -> None:
    key = (await admin("secrets", "agent-key")).out.strip()
    await apply(directory, with_cluster(provisioned("acme", "main"), **with_agent_key(tmp_path, "agent.key", key)))

    assert (await owner_of(directory, key)).ref == MAIN


async def test_a_file_brings_nothing_back_that_is_being_deleted(directory: Directory) -> None:
    acme = provisioned("acme", "main")
    await apply(directory, acme)
    await Deletions(directory, Registry()).begin_cluster(MAIN, by="operator:anna")
    with pytest.raises(Conflict, match="being deleted"):
        await apply(directory, acme)

    await Deletions(directory, Registry()).begin_tenant("acme", by="operator:anna")
    with pytest.raises(Conflict, match="being deleted"):
        await apply(directory, provisioned("acme"))


async def test_the_id_of_a_deleted_tenant_is_taken_until_its_tombstone_expires(directory: Directory) -> None:
    deletion = TenantDeletion(by="operator:anna", since=now(), removed_at=now())
    tombstone = Tenant(name="", deletion=deletion).attributes()
    for ends, taken in ((now() + timedelta(days=1), True), (now() - timedelta(days=1), False)):
        key = tenant_key("gone" if taken else "free")
        await directory.store.write(Put(ACCOUNTS, key, tombstone, Absent(), expiry(ends)))

    with pytest.raises(Conflict, match="was deleted of late"):
        await apply(directory, provisioned("gone"))
    assert "~ tenant free" in await apply(directory, provisioned("free"))
