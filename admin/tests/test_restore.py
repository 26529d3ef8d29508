"""`clusterra-admin backup` and `restore` on real NATS and DynamoDB: what is kept, refused, resumed and told."""

import asyncio
import gzip
import hashlib
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from admin_command import admin, admin_process
from bindings import BINDING, SHAPE
from clusterra_admin.backup.dynamodb_json import NotAnItem, from_json, to_json
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.versions import CONTRACTS, Announcement
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.store.attribute_value import deserialize
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_state, unpacked_state
from hypothesis import given
from hypothesis import strategies as st

CLUSTER = ClusterRef(tenant="acme", cluster="main")
RECORDED = BINDING.model_copy(update={"version": 3})
EVENTS = 700
ITEMS = 1500


@dataclass
class Installation:
    """Tables under a prefix, and a NATS server."""

    nats: NatsServer
    aws: Aws
    prefix: str = field(default_factory=lambda: f"test-{secrets.token_hex(4)}-")

    @property
    def environment(self) -> dict[str, str]:
        return {**self.nats.environment(), **self.aws.environment(), "CLUSTERRA_TABLE_PREFIX": self.prefix}

    @property
    def dynamodb(self) -> Any:
        return boto3.client(
            "dynamodb",
            endpoint_url=self.aws.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    async def declare(self) -> None:
        await admin("tables", "apply", environment=self.environment)

    def put(self, table: str, *items: dict[str, Any]) -> None:
        client = self.dynamodb
        for item in items:
            client.put_item(TableName=self.prefix + table, Item=item)

    def items(self, table: str) -> dict[tuple[str, str], dict[str, Any]]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for page in self.dynamodb.get_paginator("scan").paginate(TableName=self.prefix + table, ConsistentRead=True):
            found |= {(item["pk"]["S"], item["sk"]["S"]): item for item in page["Items"]}
        return found

    async def events(self) -> list[tuple[int, bytes]]:
        client = await bus.connect(self.nats.settings(), "test")
        try:
            return [(each.sequence, each.body) async for each in replay(client, "EVENT", ">")]
        finally:
            await bus.close(client)


@pytest.fixture(scope="module")
async def source(emulator: Aws, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """An installation with a record of all kinds of values, and events."""
    async with declared_nats(tmp_path_factory.mktemp("source")) as nats:
        installation = Installation(nats, emulator)
        await installation.declare()
        await asyncio.to_thread(fill, installation)
        client = await bus.connect(nats.settings(), "test")
        for number in range(EVENTS):
            headers = {"Nats-Msg-Id": f"event-{number}", "content-type": "application/json"}
            await bus.store(client, f"event.acme.main.job.{number % 3}", b'{"number":%d}' % number, headers)
        await put_binding(client, CLUSTER, RECORDED)
        await bus.close(client)
        yield installation


def fill(installation: Installation) -> None:
    target = ShapeTarget(
        shape=SHAPE.name, worker=SHAPE.worker, replicas=2, victims=("general-small-1",), unregistered=("w-2",)
    )
    state = FleetState.initial(now()).model_copy(
        update={"generation": 7, "fence": 70, "targets": (target,), "drains": {"general-small-1": now()}}
    )
    installation.put(
        "accounts",
        {"pk": {"S": "tenant#acme"}, "sk": {"S": "uid"}, "given": {"N": "12"}, "version": {"N": "12"}},
        {"pk": {"S": "clusters"}, "sk": {"S": CLUSTER.key}, "binding": {"S": RECORDED.model_dump_json()}},
        {"pk": {"S": "a"}, "sk": {"S": "odd"}, "v": {"M": {"l": {"L": [{"B": b"\x00\xff"}, {"NULL": True}]}}}},
        {"pk": {"S": "gone"}, "sk": {"S": "x"}, "expires_at": {"N": str(int(time.time()) - 2)}},
    )
    installation.put(
        "fleets",
        {
            "pk": {"S": CLUSTER.key},
            "sk": {"S": "fleet"},
            "state": {"B": packed_state(state)},
            "fence": {"N": "70"},
            "generation": {"N": "7"},
            "version": {"N": "1"},
        },
    )
    client = installation.dynamodb
    for first in range(0, ITEMS, 25):
        puts = [
            {
                "PutRequest": {
                    "Item": {"pk": {"S": f"p{number % 40}"}, "sk": {"S": f"{number:05}"}, "t": {"S": "x" * 900}}
                }
            }
            for number in range(first, first + 25)
        ]
        client.batch_write_item(RequestItems={f"{installation.prefix}events": puts})


@pytest.fixture(scope="module")
async def taken(source: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taken") / "backup"
    await admin_process("backup", str(folder), environment=source.environment)
    return folder


@pytest.fixture
def folder(taken: Path, tmp_path: Path) -> Path:
    """A backup that the test may change."""
    return Path(shutil.copytree(taken, tmp_path / "backup"))


@pytest.fixture
async def target(emulator: Aws, tmp_path: Path) -> AsyncIterator[Installation]:
    async with declared_nats(tmp_path / "target") as nats:
        installation = Installation(nats, emulator)
        await installation.declare()
        yield installation


def edit(folder: Path, path: str, *lines: object) -> None:
    """Add lines to a file of a backup, and make its checksum right again."""
    file = folder / path
    content = gzip.decompress(file.read_bytes()) + b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    file.write_bytes(gzip.compress(content))
    manifest = json.loads((folder / "manifest.json").read_text())
    for part in (*manifest["tables"], *manifest["streams"]):
        if part["file"]["path"] == path:
            part["file"] |= {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest))


async def test_a_restore_writes_every_item_and_event_once(
    source: Installation, folder: Path, target: Installation
) -> None:
    assert oct((folder / "tables" / "accounts.jsonl.gz").stat().st_mode)[-3:] == "600"

    restored = await admin("restore", str(folder), "--json", environment=target.environment)

    there, here = source.items("accounts"), target.items("accounts")
    assert here[("a", "odd")] == there[("a", "odd")]
    assert here[("tenant#acme", "uid")]["given"] == {"N": "1012"}
    assert ("gone", "x") not in here
    assert here.keys() == there.keys() - {("gone", "x")}
    assert target.items("events") == source.items("events")
    assert len(target.items("events")) == ITEMS
    before, after = await source.events(), await target.events()
    assert [body for _, body in after] == [body for _, body in before]
    assert after[0][0] > before[-1][0]
    outcome = restored.json
    assert not outcome["resumed"]
    # The emulator may have deleted the expired item before the backup.
    taken = gzip.decompress((folder / "tables" / "accounts.jsonl.gz").read_bytes())
    expired = {part["name"]: part["expired"] for part in outcome["tables"]}
    assert expired["accounts"] == taken.count(b'"gone"')


async def test_a_restored_fleet_names_no_victims(folder: Path, target: Installation) -> None:
    """A NodeSet gives the name of a removed worker to the next one, which may run a job by now."""
    await admin("restore", str(folder), environment=target.environment)

    state = unpacked_state(deserialize(target.items("fleets")[(CLUSTER.key, "fleet")]["state"]))
    assert (state.fence, state.generation) == (70, 7)
    assert [(each.replicas, each.victims, each.unregistered) for each in state.targets] == [(2, (), ())]
    assert not state.drains


async def test_an_interrupted_restore_continues_and_repeats_nothing(
    source: Installation, folder: Path, target: Installation, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "clusterra_admin", "restore", str(folder)]
    first = await start("restore", command, log=tmp_path / "restore.log", env=target.environment)

    async def under_way() -> bool:
        os.kill(first.pid, signal.SIGSTOP)  # it must not finish while its events are counted
        if len(await target.events()) > 50:
            return True
        os.kill(first.pid, signal.SIGCONT)
        return False

    await until(under_way, seconds=60, what="the first events", every=0.01, process=first)
    first.kill()
    await first.wait()
    assert len(await target.events()) < EVENTS, "the restore was not interrupted in its middle"

    other = await admin("backup", str(tmp_path / "other"), environment=target.environment, code=1)
    second = await admin("restore", str(folder), "--json", environment=target.environment)

    assert "a restore is under way" in other.err
    assert second.json["resumed"]
    assert [body for _, body in await target.events()] == [body for _, body in await source.events()]
    assert target.items("events") == source.items("events")
    assert target.items("accounts")[("tenant#acme", "uid")]["given"] == {"N": "1012"}


async def test_a_backup_may_be_one_file(source: Installation, target: Installation, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"

    await admin("backup", str(file), environment=source.environment)
    again = await admin("backup", str(file), environment=source.environment, code=1)
    await admin("restore", str(file), environment=target.environment)

    assert "already exists" in again.err
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == ["backup.tar"]
    assert target.items("events") == source.items("events")


async def test_a_file_that_is_no_tar_archive_is_refused(target: Installation, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    file.write_bytes(b"not an archive")

    refused = await admin("restore", str(file), environment=target.environment, code=1)

    assert "not a tar archive" in refused.err


async def test_a_changed_file_is_refused_before_anything_is_written(folder: Path, target: Installation) -> None:
    file = folder / "tables" / "fleets.jsonl.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    refused = await admin("restore", str(folder), environment=target.environment, code=1)

    assert "fleets.jsonl.gz has another checksum" in refused.err
    assert not target.items("accounts")
    assert not await target.events()


async def test_a_damaged_file_with_a_right_checksum_is_refused_too(folder: Path, target: Installation) -> None:
    file = folder / "tables" / "fleets.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-20])
    manifest = json.loads((folder / "manifest.json").read_text())
    for part in manifest["tables"]:
        if part["file"]["path"] == "tables/fleets.jsonl.gz":
            part["file"] |= {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest))

    refused = await admin("restore", str(folder), environment=target.environment, code=1)

    assert "fleets.jsonl.gz cannot be uncompressed" in refused.err
    assert not target.items("accounts")


async def test_a_folder_without_a_manifest_is_no_backup(folder: Path, target: Installation) -> None:
    (folder / "manifest.json").unlink()

    refused = await admin("restore", str(folder), environment=target.environment, code=1)

    assert "not a whole backup" in refused.err


async def test_each_bad_item_is_told_and_the_others_are_restored(folder: Path, target: Installation) -> None:
    huge = {"Item": {"pk": {"S": "huge"}, "sk": {"S": "x"}, "v": {"S": "x" * 450_000}}}
    edit(folder, "tables/accounts.jsonl.gz", {"Item": {"pk": {"S": "no sort key"}}}, b"not JSON", huge)
    edit(folder, "streams/EVENT.jsonl.gz", {"sequence": 1})

    restored = await admin("restore", str(folder), "--json", environment=target.environment, code=2)

    accounts = next(part for part in restored.json["tables"] if part["name"] == "accounts")
    assert accounts["bad"] == 3
    assert '["huge","x"]' in restored.err
    assert "no pk and sk" in restored.err
    assert next(part for part in restored.json["streams"] if part["name"] == "EVENT")["bad"] == 1
    assert ("a", "odd") in target.items("accounts")
    assert len(await target.events()) == EVENTS


async def test_running_services_must_be_stopped(folder: Path, target: Installation) -> None:
    own = Announcement(service="scaler", instance="one", software="1", contracts=CONTRACTS, working=True)
    body, headers = encode(own)
    client = await bus.connect(target.nats.settings(), "test")
    await bus.store(client, f"$KV.versions.{own.key}", body, headers)
    await bus.close(client)

    refused = await admin("restore", str(folder), environment=target.environment, code=1)

    assert "these services run: scaler" in refused.err
    assert "--replicas=0" in refused.err


async def test_fences_below_those_of_the_edges_are_refused(folder: Path, target: Installation) -> None:
    """As on a server whose clock is behind: its new leases would have lower fences than those of the lost one."""
    tomorrow = int((time.time() + 86_400) * 1_000_000)
    client = await bus.connect(target.nats.settings(), "test")
    ahead = DesiredState(generation=9, fence=tomorrow, snapshot_generation=1, decided_at=now(), targets=())
    await bus.publish_durable(client, subjects.scale_desired(CLUSTER), ahead, message_id="ahead")
    await bus.close(client)

    refused = await admin("restore", str(folder), environment=target.environment, code=1)

    assert f"{tomorrow} was given out before" in refused.err
    assert not target.items("accounts")


async def test_a_forced_restore_gives_nothing_out_again(folder: Path, target: Installation) -> None:
    client = await bus.connect(target.nats.settings(), "test")
    newer = DesiredState(generation=20, fence=80, snapshot_generation=1, decided_at=now(), targets=())
    await bus.publish_durable(client, subjects.scale_desired(CLUSTER), newer, message_id="newer")
    await put_binding(client, CLUSTER, RECORDED.model_copy(update={"version": 9, "name": "Renamed later"}))
    await bus.store(client, "$KV.leases.scaler.0", b"held", {})
    target.put(
        "accounts",
        {"pk": {"S": "tenant#acme"}, "sk": {"S": "uid"}, "given": {"N": "5000"}},
        {"pk": {"S": "later"}, "sk": {"S": "x"}},
    )

    refused = await admin("restore", str(folder), environment=target.environment, code=1)
    await admin("restore", str(folder), "--force", environment=target.environment)

    leases = (await client.jetstream().stream_info("KV_leases")).state
    await bus.close(client)
    assert "is not empty" in refused.err
    assert "--force" in refused.err
    accounts = target.items("accounts")
    assert accounts[("tenant#acme", "uid")]["given"] == {"N": "5000"}
    assert ("later", "x") in accounts
    binding = ClusterBinding.model_validate_json(accounts[("clusters", CLUSTER.key)]["binding"]["S"])
    assert (binding.name, binding.version) == ("Main", 10)
    stored = target.items("fleets")[(CLUSTER.key, "fleet")]
    state = unpacked_state(deserialize(stored["state"]))
    assert (state.fence, state.generation) == (80, 20)
    assert (stored["fence"], stored["generation"]) == ({"N": "80"}, {"N": "20"})
    assert leases.messages == 0


values = st.recursive(
    st.one_of(
        st.text().map(lambda text: {"S": text}),
        st.integers().map(lambda number: {"N": str(number)}),
        st.binary().map(lambda data: {"B": data}),
        st.booleans().map(lambda value: {"BOOL": value}),
        st.just({"NULL": True}),
        st.lists(st.binary(), min_size=1).map(lambda data: {"BS": data}),
        st.lists(st.text(), min_size=1).map(lambda data: {"SS": data}),
    ),
    lambda inner: st.one_of(
        st.lists(inner).map(lambda data: {"L": data}), st.dictionaries(st.text(), inner).map(lambda data: {"M": data})
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values))
def test_items_survive_json(attributes: dict[str, dict[str, Any]]) -> None:
    record = attributes | {"pk": {"S": "p"}, "sk": {"S": "s"}}

    assert from_json(json.loads(json.dumps(to_json(record)))) == record


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"pk": {"S": "p"}},
        {"pk": {"S": "p"}, "sk": {"S": "s"}, "v": 1},
        {"pk": {"S": "p"}, "sk": {"S": "s"}, "v": {"X": "1"}},
        {"pk": {"S": "p"}, "sk": {"S": "s"}, "v": {"B": "not base64!"}},
        {"pk": {"S": "p"}, "sk": {"S": "s"}, "v": {"S": "a", "N": "1"}},
    ],
)
def test_what_is_not_an_item_is_refused(content: object) -> None:
    with pytest.raises(NotAnItem):
        from_json(content)
