"""What the doctor reads on a real NATS about the proxy's work: leases, conditions of clusters, and snapshots."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from bindings import BINDING
from clusterra_admin.doctor.clusters import Bindings, check_slurm, compare_with_record
from clusterra_admin.doctor.credentials import check_logins
from clusterra_admin.doctor.edges import check_edges
from clusterra_admin.doctor.examination import examine
from clusterra_admin.doctor.finding import Finding
from clusterra_admin.doctor.services import count_leases
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_admin.doctor.watching import check_conditions, check_snapshot, without_consequences
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.bus.subjects import SHARD_COUNT, Subject
from clusterra_contracts.bus.topology import CONDITIONS, VERSIONS
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.slurm_nodes import Diagnose, Diagnosis
from clusterra_contracts.versions import CONTRACTS, Announcement
from clusterra_gateway.accounts.keyspace import ACCOUNTS, cluster_key
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import serve
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put

REF = ClusterRef(tenant="acme", cluster="main")
PREFIX = "$KV.leases.proxy."


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(nats.settings(), "test")
    yield client
    await bus.close(client)


def test_keys_that_a_killed_server_brought_back_are_no_replicas() -> None:
    at = now()

    def key(name: str, seconds: float) -> Stored:
        stored_at = at - timedelta(seconds=seconds)
        return Stored(1, f"{PREFIX}{name}", b"", {"Nats-Time-Stamp": stored_at.isoformat()})

    old = [key("member.old", 3600.0), key("0", 3600.0), key("1", 3600.0)]

    assert count_leases(old, PREFIX, at) == (0, 0)
    assert count_leases([*old, key("member.new", 1.0), key("2", 0.0)], PREFIX, at) == (1, 1)


async def test_the_clusters_are_asked_while_some_shards_are_not_held(nats: NatsServer, client: Client) -> None:
    async def diagnose(_subject: Subject, _request: Diagnose) -> Diagnosis:
        return Diagnosis(reachable=True, slurm_version="25.05.3", api_version="v0.0.45", partition_found=True)

    await put_binding(client, REF, BINDING)
    await serve(client, subjects.slurm(REF, "diag"), Diagnose, diagnose)
    for key in ("member.one", *map(str, range(SHARD_COUNT - 1))):
        await bus.store(client, f"{PREFIX}{key}", b"", {})

    report = await examine(DoctorSettings(nats_url=nats.url), 20.0)

    (unheld,) = [each for each in report.findings if each.check == "services.replicas" and each.about == "proxy"]
    assert unheld.status == "failure"
    assert f"only {SHARD_COUNT - 1} of {SHARD_COUNT}" in unheld.seen
    assert [each.status for each in report.findings if each.check == "clusters.slurm"] == ["ok"]


async def test_every_reason_of_a_degraded_cluster_is_told(client: Client) -> None:
    reasons = [("queue_too_large", "60,000 jobs"), ("unreadable_records", "job 7: begin time")]
    degraded = tuple(Degradation(reason=reason, message=message, since=now()) for reason, message in reasons)
    await put_condition(client, ClusterCondition(degraded=degraded))

    findings = await check_conditions(client, {REF: BINDING})

    assert [(each.status, each.about) for each in findings] == [("warning", "acme/main")] * 2
    assert "queue_too_large since" in findings[0].seen
    assert "job 7: begin time" in findings[1].seen
    paused = BINDING.model_copy(update={"state": "paused"})
    assert [each.status for each in await check_conditions(client, {REF: paused})] == ["ok"]


async def test_a_healthy_cluster_has_no_finding(client: Client) -> None:
    await put_condition(client, ClusterCondition())

    assert [each.status for each in await check_conditions(client, {REF: BINDING})] == ["ok"]


async def test_a_stale_snapshot_is_a_failure(client: Client) -> None:
    (missing,) = await check_snapshot(client, REF, BINDING)
    await publish(client, read_seconds=1.0)
    (fresh,) = await check_snapshot(client, REF, BINDING)
    await publish(client, read_seconds=31.0)
    (stale,) = await check_snapshot(client, REF, BINDING)

    assert (missing.status, fresh.status, stale.status) == ("failure", "ok", "failure")
    assert "31 s old, valid for 30 s: nothing is decided" in stale.seen


def test_what_follows_from_another_failure_is_not_named() -> None:
    def finding(check: str, status: str, seen: str = "", about: str = "acme/main") -> Finding:
        return Finding.model_validate({"check": check, "status": status, "seen": seen, "about": about})

    slurm = finding("clusters.slurm", "failure")
    unreachable = finding("clusters.condition", "warning", "unreachable since 2026: no answer")
    unreadable = finding("clusters.condition", "warning", "unreadable_records since 2026: job 7")
    stale = finding("clusters.snapshot", "failure")
    elsewhere = finding("clusters.snapshot", "failure", about="acme/other")

    kept = without_consequences([slurm, unreachable, unreadable, stale, elsewhere])

    assert kept == [slurm, unreadable, elsewhere]
    assert without_consequences([unreachable, stale]) == [unreachable, stale]


async def put_condition(client: Client, condition: ClusterCondition) -> None:
    body, headers = encode(condition)
    await bus.store(client, f"$KV.{CONDITIONS.name}.{REF.key}", body, headers)


async def publish(client: Client, *, read_seconds: float) -> None:
    at = now()
    snapshot = QueueSnapshot(
        generation=1, taken_at=at - timedelta(seconds=read_seconds), published_at=at, pending=(), running=(), nodes=()
    )
    await bus.publish_durable(client, subjects.job_pending(REF), snapshot, message_id=f"{read_seconds}")


async def test_a_cluster_that_is_being_deleted_is_no_failure(client: Client) -> None:
    """Its edge may be gone already, and its binding leaves the registry before it leaves the record."""
    deleting = BINDING.model_copy(update={"state": "paused", "deleting": True})

    async with MemoryStore() as store:
        await store.create_tables(ACCOUNTS)
        attributes = {"binding": deleting.model_dump_json()}
        await store.write(Put(ACCOUNTS, cluster_key(REF), attributes, Absent()))
        findings = [
            *await check_edges(client, {REF: deleting}),
            *await check_slurm(client, REF, deleting, 1.0),
            *await check_snapshot(client, REF, deleting),
            *await compare_with_record(store, Bindings({}, [], readable=True)),
        ]

    assert [(each.status, each.seen) for each in findings] == [
        ("skipped", "the cluster is being deleted"),
        ("skipped", "the cluster is deleting"),
        ("skipped", "the cluster is deleting"),
        ("skipped", "the cluster is being deleted"),
    ]


async def test_the_edge_of_any_other_cluster_is_a_failure_without_heartbeats(client: Client) -> None:
    (found,) = await check_edges(client, {REF: BINDING})

    assert found.status == "failure"


async def test_the_login_of_a_service_that_ends_soon_is_told(client: Client) -> None:
    for instance, days in (("one", 10), ("two", 300)):
        own = Announcement(
            service="proxy",
            instance=instance,
            software="1",
            contracts=CONTRACTS,
            working=True,
            login_expires_at=now() + timedelta(days=days, hours=1),
        )
        body, headers = encode(own)
        await bus.store(client, f"$KV.{VERSIONS.name}.{own.key}", body, headers)

    (found,) = await check_logins(client)

    assert (found.status, found.about) == ("warning", "proxy")
    assert "valid for 10.0 more days" in found.seen


@pytest.mark.parametrize(
    ("days", "status", "seen"),
    [
        (80.0, "ok", "valid for 80.0 more days"),
        (10.0, "warning", "valid for 10.0 more days"),
        (2.0, "failure", "valid for 2.0 more days"),
        (-5.0, "failure", "it ended on"),
        (None, "skipped", "tells no end"),
    ],
)
async def test_the_login_of_an_edge_agent_that_ends_soon_is_told(
    client: Client, days: float | None, status: str, seen: str
) -> None:
    beat = Heartbeat(
        generation=1,
        sent_at=now(),
        agent_version="1",
        login_expires_at=None if days is None else now() + timedelta(days=days, hours=1),
        substrate="process",
        workers=(),
    )
    await bus.publish_durable(client, subjects.heartbeat(REF), beat, message_id="beat")

    findings = await check_edges(client, {REF: BINDING})

    (found,) = [each for each in findings if each.check == "edges.credentials"]
    assert (found.status, found.about) == (status, "acme/main")
    assert seen in found.seen
    if status in ("warning", "failure"):
        assert "clusterra-admin secrets agent" in found.advice
