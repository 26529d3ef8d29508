"""`clusterra-admin provision` on a real record and a real NATS."""

import json
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from admin_command import Answer, admin, admin_process
from clusterra_admin.provision.record import opened
from clusterra_admin.tables.declared import TABLES
from clusterra_contracts.agent_http import new_key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_key
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.store.condition import Present
from clusterra_runtime.store.store import Delete
from gateway_world import CATALOGUE, provisioned
from own_tables import create_tables

DOCUMENTS = Path(__file__).parents[2] / "docs" / "operations"
MAIN = ClusterRef(tenant="acme", cluster="main")


class Operator:
    """Someone who runs the commands of one installation."""

    def __init__(self, directory: Path, environment: dict[str, str], client: Client) -> None:
        self._directory = directory
        self._environment = environment
        self.client = client

    async def run(self, *arguments: str, code: int = 0) -> Answer:
        return await admin("provision", *arguments, environment=self._environment, code=code)

    def file(self, *tenants: dict[str, Any]) -> str:
        file = self._directory / "tenants.yaml"
        file.write_text(yaml.safe_dump({"tenants": list(tenants)}))
        return str(file)

    async def projected(self, ref: ClusterRef = MAIN) -> ClusterBinding | None:
        """What the services know of a cluster."""
        subject = f"$KV.{REGISTRY.name}.{ref.key}"
        answer = await self.client.request(f"$JS.API.DIRECT.GET.KV_{REGISTRY.name}.{subject}", timeout=5)
        if (answer.headers or {}).get("Status") == "404" or "KV-Operation" in (answer.headers or {}):
            return None
        found = await last(self.client, f"KV_{REGISTRY.name}", subject, ClusterBinding)
        return None if found is None else found[0]

    async def beat(self, *workers: str, behind: timedelta = timedelta()) -> None:
        """A heartbeat of the cluster's edge with these workers, and with a clock that may be behind."""
        running = tuple(Worker(name=name, shape="compute-xs", phase="running", started_at=now()) for name in workers)
        heartbeat = Heartbeat(
            generation=1, sent_at=now() - behind, agent_version="1", substrate="process", workers=running
        )
        await bus.publish_durable(
            self.client, subjects.heartbeat(MAIN), heartbeat, message_id=f"beat-{secrets.token_hex(4)}"
        )


@pytest.fixture
async def operator(nats: NatsServer, emulator: Aws, tmp_path: Path) -> AsyncIterator[Operator]:
    (tmp_path / "shapes.yaml").write_text(yaml.safe_dump(CATALOGUE.model_dump(mode="json")))
    prefix = f"test-{secrets.token_hex(4)}-"
    environment = {
        **nats.environment(),
        **emulator.environment(),
        "CLUSTERRA_TABLE_PREFIX": prefix,
        "CLUSTERRA_CATALOGUE_FILE": str(tmp_path / "shapes.yaml"),
    }
    await create_tables(emulator, prefix, *TABLES)
    client = await bus.connect(nats.settings(), "test")
    yield Operator(tmp_path, environment, client)
    await bus.close(client)


async def test_a_plan_shows_the_users_of_an_identity_source(operator: Operator) -> None:
    ada = {"name": "ada", "uid": 5001, "gid": 5001, "emails": ["ada@acme.example"]}
    bob = {"name": "bob", "uid": 5002, "gid": 5002, "emails": ["bob@acme.example"]}

    def campus(*users: dict[str, object]) -> str:
        sources = {"identity_sources": {"campus": {"kind": "file", "users": users}}, "identity_source": "campus"}
        return operator.file(provisioned("acme", "main") | sources)

    first = campus(ada, bob)
    planned = await operator.run("plan", first, code=2)
    assert "+ identity source campus of tenant acme\n" in planned.out
    assert "+ user ada of identity source acme/campus\n" in planned.out
    assert '    identity_source: "campus"\n' in planned.out
    applied = await operator.run("apply", first)
    # Users are written some at a time, in no order.
    assert sorted(applied.out.splitlines()) == sorted(planned.out.splitlines())
    assert (await operator.run("plan", first)).out == "nothing would change\n"

    second = campus(ada, bob | {"uid": 5009})
    replanned = await operator.run("plan", second, code=2)
    assert "~ state of identity source acme/campus\n" in replanned.out
    assert "bob: has uid 5002 for good, not 5009" in replanned.out
    assert "user ada" not in replanned.out


async def test_a_plan_shows_what_apply_does_and_changes_nothing(operator: Operator) -> None:
    file = operator.file(provisioned("acme", "main", admins=("boss@acme.example",)))

    planned = await operator.run("plan", file, code=2)

    assert "+ tenant acme\n" in planned.out
    assert '+ domain acme.example\n    tenant: "acme"\n' in planned.out
    assert '+ cluster acme/main\n    name: "main of acme"\n' in planned.out
    assert "\x1b[" not in planned.out
    assert await operator.projected() is None
    assert (await operator.run("plan", file, code=2)).out == planned.out

    applied = await operator.run("apply", file)

    assert applied.out == planned.out
    binding = await operator.projected()
    assert binding is not None
    assert binding.catalogue == CATALOGUE
    assert (await operator.run("plan", file)).out == "nothing would change\n"
    assert (await operator.run("apply", file)).out == "nothing to change\n"


async def test_a_changed_field_is_shown_with_its_old_value(operator: Operator, tmp_path: Path) -> None:
    acme: dict[str, Any] = provisioned("acme", "main")
    await operator.run("apply", operator.file(acme))
    (tmp_path / "agent-key").write_text(key := new_key())
    changed = acme["clusters"][0] | {"policy": {"max_workers": 7}, "agent_key": f"file:{tmp_path / 'agent-key'}"}

    planned = await operator.run("plan", operator.file(acme | {"clusters": [changed]}), "--json", code=2)

    by_name = {change["what"]: change for change in planned.json["changes"]}
    assert by_name["cluster acme/main"]["fields"] == {"policy.max_workers": {"old": 100, "new": 7}}
    assert by_name["agent key of acme/main"]["action"] == "create"
    assert by_name["current agent key of acme/main"]["fields"] == {
        "hash": {"old": None, "new": "(hidden)"},
        "older": {"old": None, "new": []},
    }
    assert key not in planned.out


async def test_a_mistake_anywhere_in_the_file_prevents_all_of_it(operator: Operator) -> None:
    await operator.run("apply", operator.file(provisioned("acme", "main")))
    thief = provisioned("thief", "main") | {"domains": ["thief.example", "acme.example"]}

    answer = await operator.run("apply", operator.file(provisioned("innocent", "main"), thief), code=1)

    assert "domain acme.example belongs to tenant acme" in answer.err
    listed = await operator.run("list", "--json")
    assert [cluster["tenant"] for cluster in listed.json["clusters"]] == ["acme"]


async def test_a_paused_cluster_stays_paused_when_the_file_is_applied_again(operator: Operator) -> None:
    acme = provisioned("acme", "main")
    await operator.run("apply", operator.file(acme))

    assert (await operator.run("pause", "acme/main")).out == "cluster acme/main: now paused\n"
    assert (await operator.run("pause", "acme/main")).out == "cluster acme/main: already paused\n"

    assert (await operator.run("apply", operator.file(acme))).out == "nothing to change\n"
    binding = await operator.projected()
    assert binding is not None
    assert (binding.state, binding.version) == ("paused", 2)
    listed = await operator.run("list")
    assert "paused" in listed.out

    assert (await operator.run("resume", "acme/main")).out == "cluster acme/main: now active\n"
    binding = await operator.projected()
    assert binding is not None
    assert binding.state == "active"


async def test_a_cluster_with_workers_is_listed_with_them_and_not_removed(operator: Operator) -> None:
    await operator.run("apply", operator.file(provisioned("acme", "main"), provisioned("rival", "main")))
    await operator.beat("compute-xs-a", "compute-xs-b", behind=timedelta(minutes=10))

    listed = await operator.run("list", "--json")
    refused = await operator.run("remove", "acme/main", code=1)

    acme, rival = sorted(listed.json["clusters"], key=lambda cluster: str(cluster["tenant"]))
    assert (acme["tenant"], acme["workers"]) == ("acme", 2)
    assert acme["heartbeat_seconds"] < 60
    assert (rival["tenant"], rival["workers"], rival["heartbeat_seconds"]) == ("rival", None, None)
    assert "cluster acme/main has 2 workers" in refused.err
    assert await operator.projected() is not None


async def test_a_cluster_is_removed_once_its_workers_are_gone(operator: Operator) -> None:
    await operator.run("apply", operator.file(provisioned("acme", "main"), provisioned("rival", "main")))
    await operator.beat("compute-xs-a", "compute-xs-b")
    await operator.beat()

    removed = await operator.run("remove", "acme/main")

    listed = await operator.run("list", "--json")
    again = [await operator.run(verb, "acme/main", code=1) for verb in ("remove", "pause")]
    assert "cluster acme/main: removed" in removed.out
    assert "secrets revoke DIRECTORY --tenant acme --cluster main" in removed.out
    assert await operator.projected() is None
    assert [cluster["tenant"] for cluster in listed.json["clusters"]] == ["rival"]
    assert ["there is no cluster acme/main" in answer.err for answer in again] == [True, True]


async def test_a_cluster_that_was_applied_again_is_removed_by_force_with_its_workers(operator: Operator) -> None:
    file = operator.file(provisioned("acme", "main"))
    await operator.run("apply", file)
    await operator.run("remove", "acme/main", "--force")
    await operator.run("apply", file)
    await operator.beat("compute-xs-c")

    forced = await operator.run("remove", "acme/main", "--force")

    assert "1 workers and 0 jobs, on their own" in forced.out
    assert await operator.projected() is None


async def test_garbage_of_one_agent_hides_no_other_cluster(operator: Operator) -> None:
    await operator.run("apply", operator.file(provisioned("acme", "main"), provisioned("rival", "main")))
    await operator.beat("compute-xs-a")
    rival = ClusterRef(tenant="rival", cluster="main")
    await bus.store(operator.client, subjects.heartbeat(rival), b"\x00{", {"x-schema": "heartbeat.v3"})

    listed = await operator.run("list", "--json")

    assert {cluster["tenant"]: cluster["workers"] for cluster in listed.json["clusters"]} == {"acme": 1, "rival": None}


async def test_an_interrupted_removal_is_listed_and_can_be_completed(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = provisioned("acme", "main")
    await operator.run("apply", operator.file(acme))
    await operator.run("apply", operator.file(acme | {"clusters": [acme["clusters"][0] | {"name": "renamed"}]}))  # type: ignore[index]
    for name, value in operator._environment.items():
        monkeypatch.setenv(name, value)
    async with opened() as record:
        await record.directory.store.delete(Delete(ACCOUNTS, cluster_key(MAIN), Present()))

    listed = await operator.run("list", "--json")

    assert [(each["cluster"], each["state"]) for each in listed.json["clusters"]] == [("main", "removing")]
    assert "removing" in (await operator.run("list")).out
    assert "no cluster acme/main in the record" in (await operator.run("pause", "acme/main", code=1)).err

    assert "cluster acme/main: removed" in (await operator.run("remove", "acme/main")).out
    assert await operator.projected() is None
    assert (await operator.run("list")).out == "no clusters\n"


async def test_a_half_removed_cluster_can_be_applied_again(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = provisioned("acme", "main")
    await operator.run("apply", operator.file(acme))
    await operator.run("pause", "acme/main")
    for name, value in operator._environment.items():
        monkeypatch.setenv(name, value)
    async with opened() as record:
        await record.directory.store.delete(Delete(ACCOUNTS, cluster_key(MAIN), Present()))

    await operator.run("apply", operator.file(acme))

    binding = await operator.projected()
    assert binding is not None
    assert (binding.state, binding.version) == ("active", 3)


async def test_the_example_of_the_documents_is_applied(operator: Operator, tmp_path: Path) -> None:
    example = yaml.safe_load((DOCUMENTS / "provision.example.yaml").read_text())
    jsonschema.validate(example, json.loads((DOCUMENTS / "provision.schema.json").read_text()))
    text = (DOCUMENTS / "provision.example.yaml").read_text().replace("/etc/clusterra", str(tmp_path / "secrets"))
    (tmp_path / "example.yaml").write_text(text)
    await admin("secrets", "init", str(tmp_path / "secrets"), "--tenant", "acme", "--cluster", "main")

    await admin_process("provision", "apply", str(tmp_path / "example.yaml"), environment=operator._environment)

    binding = await operator.projected()
    assert binding is not None
    assert (binding.policy.max_workers, binding.policy.usd_per_hour) == (200, 40)
    assert (await operator.run("apply", str(tmp_path / "example.yaml"))).out == "nothing to change\n"


async def test_the_published_schema_is_that_of_the_command(operator: Operator) -> None:
    printed = await operator.run("schema")

    assert printed.out == (DOCUMENTS / "provision.schema.json").read_text()
    bad_id = {"tenants": [{"id": "Bad_Id", "name": "x"}]}
    mistakes: tuple[Any, ...] = ({}, {"tenants": []}, bad_id, {"tenants": [], "x": 1})
    for wrong in mistakes:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, printed.json)


async def test_an_unreadable_file_and_a_missing_table_are_named(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("tenants: [{id: Bad_Id, name: x}]")

    assert "bad.yaml" in (await operator.run("plan", str(tmp_path / "bad.yaml"), code=1)).err

    operator._environment["CLUSTERRA_TABLE_PREFIX"] = "nowhere-"

    assert "run `clusterra-admin tables apply`" in (await operator.run("list", code=1)).err
