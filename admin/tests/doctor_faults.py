"""Deliberate faults in a running installation, each undone at the end of its block."""

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import aiohttp
import boto3
import pytest
from aiohttp import web
from certificate import write_certificate
from clusterra_admin.doctor import edges
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm_nodes import Diagnose, Diagnosis
from clusterra_events.archive_table import ARCHIVE
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.webhooks.state_table import DELIVERIES
from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.staging.table import STAGING
from clusterra_gateway.templates.table import TEMPLATES
from clusterra_gateway.workflows.table import RUNS
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.store import Put, Table
from clusterra_runtime.store.webhook_records import WEBHOOKS
from clusterra_scaler.fleet_table import FLEETS

type Problem = tuple[str, str, str]
"""Check, about, status."""


@dataclass(frozen=True)
class World:
    """The installation, the doctor's settings for it, and a folder for files."""

    lab: Stack
    settings: DoctorSettings
    directory: Path

    def with_settings(self, **changes: Any) -> DoctorSettings:
        """The doctor's settings with some of them changed."""
        return DoctorSettings(**{**self.settings.model_dump(), **changes})


@dataclass
class Fault:
    """What the doctor must find, with which settings it looks, and what the advice must contain."""

    expected: set[Problem]
    settings: DoctorSettings
    advice: str
    environment: dict[str, str] = field(default_factory=dict)


type Make = Callable[[World], AbstractAsyncContextManager[Fault]]

CLUSTER = "acme/main"


@asynccontextmanager
async def slurmrestd_stopped(world: World) -> AsyncIterator[Fault]:
    slurmrestd = world.lab.slurm["slurmrestd"]
    await slurmrestd.kill()
    yield Fault({("clusters.slurm", CLUSTER, "failure")}, world.settings, "slurmrestd")
    await slurmrestd.start()


@asynccontextmanager
async def operator_without_rights(world: World) -> AsyncIterator[Fault]:
    slurm = world.lab.slurm

    async def give(level: str) -> None:
        modify = ("sacctmgr", "--immediate", "modify", "user", slurm.operator.name, "set", f"adminlevel={level}")
        done = await slurm.run(*modify)
        assert done.returncode == 0, done

    await give("None")
    yield Fault({("clusters.operator", CLUSTER, "failure")}, world.settings, "adminlevel=Administrator")
    await give("Administrator")


@asynccontextmanager
async def unreadable_secret(world: World) -> AsyncIterator[Fault]:
    key = world.lab.slurm.jwt_key_file
    away = key.rename(key.with_suffix(".away"))
    yield Fault({("clusters.secret", CLUSTER, "failure")}, world.settings, f"make file:{key} readable")
    away.rename(key)


@asynccontextmanager
async def missing_partition(world: World) -> AsyncIterator[Fault]:
    lab, registry = world.lab, Registry()
    await registry.start(lab.bus)
    binding = registry.clusters[lab.cluster]
    await registry.stop()
    wrong = binding.model_copy(update={"partition": "gone", "version": binding.version + 1})
    await put_binding(lab.bus, lab.cluster, wrong)

    async def taken_up() -> bool:
        try:
            found = await call(lab.bus, subjects.slurm(lab.cluster, "diag"), Diagnose(), Diagnosis)
        except RpcFailed:
            return False
        return found.partition_found is False

    await until(taken_up, seconds=90, what="the proxy to take up the changed binding")
    yield Fault({("clusters.partition", CLUSTER, "failure")}, world.settings, "PartitionName=gone")
    await put_binding(lab.bus, lab.cluster, binding.model_copy(update={"version": binding.version + 2}))


@asynccontextmanager
async def wrong_password(world: World) -> AsyncIterator[Fault]:
    file = world.directory / "wrong-password"
    file.write_text("revoked")
    settings = world.with_settings(nats_password_file=file)
    yield Fault({("nats.connection", "", "failure")}, settings, "the credentials")


@asynccontextmanager
async def wrong_rights(world: World) -> AsyncIterator[Fault]:
    passwords = world.lab.nats.passwords
    settings = world.with_settings(nats_user="edge-agent", nats_password_file=passwords["edge-agent"])
    yield Fault({("nats.rights", "", "failure")}, settings, "admin.creds")


@asynccontextmanager
async def nats_stopped(world: World) -> AsyncIterator[Fault]:
    await world.lab.nats.kill()
    yield Fault({("nats.connection", "", "failure")}, world.settings, "CLUSTERRA_NATS_URL")
    await world.lab.nats.restart()


@asynccontextmanager
async def deleted_consumer(world: World) -> AsyncIterator[Fault]:
    await request(world, "CONSUMER.DELETE.JOB.scaler-3")
    yield Fault({("nats.topology", "consumer JOB/scaler-3", "failure")}, world.settings, "topology apply")
    await topology.apply(world.lab.bus)


@asynccontextmanager
async def changed_stream(world: World) -> AsyncIterator[Fault]:
    config = (await request(world, "STREAM.INFO.EVENT"))["config"]
    await request(world, "STREAM.UPDATE.EVENT", config | {"max_age": 60 * 60 * 10**9})
    yield Fault({("nats.topology", "stream EVENT", "failure")}, world.settings, "topology apply")
    await topology.apply(world.lab.bus)


@asynccontextmanager
async def dead_letter(world: World) -> AsyncIterator[Fault]:
    await world.lab.bus.publish("heartbeat.acme.main", b"not a heartbeat")

    async def buried() -> bool:
        return bool((await request(world, "STREAM.INFO.DLQ"))["state"]["messages"])

    await until(buried, seconds=90, what="the dead letter")
    # The next heartbeat of the agent takes the place of the garbage.
    await until(lambda: heartbeat_readable(world), seconds=90, what="a heartbeat")
    yield Fault({("nats.dead-letters", "", "warning")}, world.settings, "dead-letters replay")
    await request(world, "STREAM.PURGE.DLQ")


@asynccontextmanager
async def missing_table(world: World) -> AsyncIterator[Fault]:
    name = f"{world.settings.table_prefix}{IDEMPOTENCY.name}"
    boto3.client("dynamodb").delete_table(TableName=name)
    yield Fault({("record.table", name, "failure")}, world.settings, "tables apply")
    async with DynamoDBStore(table_prefix=world.settings.table_prefix) as store:
        await store.create_tables(IDEMPOTENCY)


@asynccontextmanager
async def missing_index(world: World) -> AsyncIterator[Fault]:
    """The record of another prefix: the services must not work on a table that lacks its index."""
    there, here = world.settings.table_prefix, "doctor-"
    others = (ACCOUNTS, IDEMPOTENCY, RUNS, STAGING, TEMPLATES, WEBHOOKS, ARCHIVE, LEDGER, DELIVERIES)
    async with DynamoDBStore(table_prefix=there) as store:
        clusters = (await store.query(ACCOUNTS, CLUSTERS)).items
    async with DynamoDBStore(table_prefix=here) as store:
        await store.create_tables(Table(FLEETS.name), *others)
        for item in clusters:
            await store.write(Put(ACCOUNTS, item.key, item.attributes, Absent()))
    settings = world.with_settings(table_prefix=here)
    yield Fault({("record.table", f"{here}{FLEETS.name}", "failure")}, settings, "tables apply")
    for table in (FLEETS, *others):
        boto3.client("dynamodb").delete_table(TableName=f"{here}{table.name}")


@asynccontextmanager
async def unreachable_record(world: World) -> AsyncIterator[Fault]:
    nowhere = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    yield Fault({("record.connection", "", "failure")}, world.settings, "AWS_ENDPOINT_URL", nowhere)


@asynccontextmanager
async def wrong_issuer(world: World) -> AsyncIterator[Fault]:
    issuer = world.lab.oidc.issuer
    wrong = f"{issuer}/"
    yield Fault({("issuer.name", wrong, "failure")}, world.with_settings(oidc_issuer=wrong), issuer)


@asynccontextmanager
async def expiring_certificate(world: World) -> AsyncIterator[Fault]:
    async with tls_front(world, timedelta(days=5)) as fault:
        about = fault.settings.public_url.partition("//")[2] if fault.settings.public_url else ""
        fault.expected = {("certificates.expiry", f"gateway {about}", "warning")}
        yield fault


@asynccontextmanager
async def expired_certificate(world: World) -> AsyncIterator[Fault]:
    async with tls_front(world, timedelta(days=-1)) as fault:
        about = fault.settings.public_url.partition("//")[2] if fault.settings.public_url else ""
        fault.expected = {("certificates.expiry", f"gateway {about}", "failure")}
        yield fault


@asynccontextmanager
async def tls_front(world: World, valid_for: timedelta) -> AsyncIterator[Fault]:
    file = world.directory / "front.pem"
    write_certificate(file, valid_for)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    async with front(world.lab.gateway_url, tls=context) as url:
        yield Fault(set(), world.with_settings(public_url=url), "renew it", {"SSL_CERT_FILE": str(file)})


@asynccontextmanager
async def skewed_gateway(world: World) -> AsyncIterator[Fault]:
    async with front(world.lab.gateway_url, ahead=timedelta(minutes=2)) as url:
        settings = world.with_settings(public_url=url)
        yield Fault({("clocks.skew", "gateway", "failure")}, settings, "NTP")


@asynccontextmanager
async def stale_heartbeat(world: World) -> AsyncIterator[Fault]:
    agent = world.lab.services["edge-agent"]
    await agent.stop()
    stored = await last_heartbeat(world)
    late = timedelta(seconds=6)  # instead of 15 s, in which the whole installation would idle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "LATE_SECONDS", late.total_seconds())
        await until(lambda: now() - stored.sent_at > late, seconds=40, what="a late heartbeat")
        yield Fault({("edges.heartbeat", CLUSTER, "warning")}, world.settings, "edge-agent")
    await agent.start()
    await agent.ready()


@asynccontextmanager
async def skewed_edge(world: World) -> AsyncIterator[Fault]:
    """A heartbeat as an agent sends it whose clock is ten minutes behind."""
    agent = world.lab.services["edge-agent"]
    await agent.stop()
    beat = await last_heartbeat(world)
    wrong = {"generation": beat.generation + 1, "sent_at": now() - timedelta(minutes=10)}
    await bus.publish(world.lab.bus, subjects.heartbeat(world.lab.cluster), beat.model_copy(update=wrong))
    await world.lab.bus.flush()
    yield Fault({("clocks.skew", f"edge {CLUSTER}", "failure")}, world.settings, "NTP")
    await agent.start()
    await agent.ready()


@asynccontextmanager
async def proxy_stopped(world: World) -> AsyncIterator[Fault]:
    await world.lab.services["proxy"].stop()
    yield Fault({("services.replicas", "proxy", "failure")}, world.settings, "start proxy")
    await world.lab.services["proxy"].start()
    await world.lab.services["proxy"].ready()


@asynccontextmanager
async def events_stopped(world: World) -> AsyncIterator[Fault]:
    await world.lab.services["events"].stop()
    yield Fault({("services.replicas", "events", "failure")}, world.settings, "start events")
    await world.lab.services["events"].start()
    await world.lab.services["events"].ready()


FAULTS: tuple[Make, ...] = (
    slurmrestd_stopped,
    operator_without_rights,
    unreadable_secret,
    missing_partition,
    wrong_password,
    wrong_rights,
    deleted_consumer,
    changed_stream,
    dead_letter,
    missing_table,
    missing_index,
    unreachable_record,
    wrong_issuer,
    expiring_certificate,
    expired_certificate,
    skewed_gateway,
    stale_heartbeat,
    skewed_edge,
    proxy_stopped,
    events_stopped,
    nats_stopped,
)


@asynccontextmanager
async def front(
    target: str, *, ahead: timedelta = timedelta(), tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A server in front of the gateway, whose clock is wrong or which speaks TLS."""

    async def relay(request: web.Request) -> web.Response:
        async with aiohttp.ClientSession() as http, http.get(f"{target}{request.path_qs}") as answer:
            date = format_datetime(datetime.now(UTC) + ahead, usegmt=True)
            return web.Response(status=answer.status, body=await answer.read(), headers={"Date": date})

    app = web.Application()
    app.router.add_get("/{path:.*}", relay)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def request(world: World, subject: str, body: object = None) -> dict[str, Any]:
    """Send a request to JetStream's API."""
    data = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await world.lab.bus.request(f"$JS.API.{subject}", data, timeout=5)).data)
    assert "error" not in answer, answer
    return answer


async def last_heartbeat(world: World) -> Heartbeat:
    """The last heartbeat of the edge."""
    found = await bus.last(world.lab.bus, HB.name, subjects.heartbeat(world.lab.cluster), Heartbeat)
    assert found is not None
    return found[0]


async def heartbeat_readable(world: World) -> bool:
    """Whether the last heartbeat can be read."""
    try:
        await last_heartbeat(world)
    except ValueError:
        return False
    return True
