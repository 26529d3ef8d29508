"""What the permissions of central services let them do with consumers, at a real server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus.permissions import (
    CENTRAL_SERVICES,
    CentralService,
    Permissions,
    central_service,
    control_plane,
)
from clusterra_contracts.bus.topology import CONSUMERS, EVENTS_ARCHIVE
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, topology
from nats.aio.client import Client
from nats.aio.msg import Msg

PUSHED_TO = ("slurm.acme.main.submit", "scale.desired.acme.main", "$KV.registry.acme.main")


@dataclass(frozen=True)
class Login:
    """A connection with the permissions of one service, and the violations that the server reports."""

    client: Client
    violations: list[str]

    async def denied(self, subject: str, body: object) -> bool:
        """Whether the server denies a publication. It answers in the order of the commands."""
        self.violations.clear()
        await self.client.publish(subject, json.dumps(body).encode())
        await self.client.flush()
        await self.client.flush()  # with nats-py the PING of the first overtakes buffered commands
        return bool(self.violations)


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    directory: Path = tmp_path_factory.mktemp("permissions")
    users: dict[str, Permissions] = {service: central_service(service) for service in CENTRAL_SERVICES}
    users["admin"] = control_plane()
    async with nats_server(directory, users=users) as running:
        admin = await bus.connect(running.settings("admin"), "admin")
        await topology.apply(admin)
        await bus.close(admin)
        yield running


@asynccontextmanager
async def login(server: NatsServer, user: str) -> AsyncIterator[Login]:
    violations: list[str] = []

    async def record(error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            violations.append(str(error))

    client = Client()
    password = server.passwords[user].read_text().strip()
    await client.connect(server.url, user=user, password=password, error_cb=record, inbox_prefix=f"_INBOX_{user}")
    try:
        yield Login(client, violations)
    finally:
        await client.close()


def pushing(name: str, to: str, filter_subject: str) -> dict[str, Any]:
    return {
        "stream_name": "EVENT",
        "config": {"name": name, "deliver_subject": to, "filter_subject": filter_subject, "ack_policy": "none"},
    }


@pytest.mark.parametrize("to", PUSHED_TO)
@pytest.mark.parametrize("service", ["proxy", "scaler", "events"])
async def test_a_service_without_consumers_of_its_own_makes_none(
    service: CentralService, to: str, server: NatsServer
) -> None:
    reached: list[Msg] = []

    async def record(message: Msg) -> None:
        reached.append(message)

    async with login(server, "admin") as admin, login(server, service) as other:
        await admin.client.subscribe(to, cb=record)
        await admin.client.jetstream().publish("event.acme.main.admin.x", b"forged")
        for subject in (
            "$JS.API.CONSUMER.CREATE.EVENT",
            "$JS.API.CONSUMER.CREATE.EVENT.mine",
            "$JS.API.CONSUMER.CREATE.EVENT.mine.event.>",
            "$JS.API.CONSUMER.DURABLE.CREATE.EVENT.mine",
        ):
            assert await other.denied(subject, pushing("mine", to, "event.>"))
        names = [each.name for each in await admin.client.jetstream().consumers_info("EVENT")]

    assert names == [EVENTS_ARCHIVE]
    assert not reached


@pytest.mark.parametrize("service", CENTRAL_SERVICES)
async def test_nobody_deletes_a_durable_consumer(service: CentralService, server: NatsServer) -> None:
    async with login(server, service) as one:
        for consumer in CONSUMERS:
            assert await one.denied(f"$JS.API.CONSUMER.DELETE.{consumer.stream}.{consumer.name}", {})


async def test_a_service_pulls_from_its_own_durable_consumers_only(server: NatsServer) -> None:
    owner = {"JOB": "scaler", "EVENT": "events"}
    for service in ("proxy", "scaler", "events"):
        async with login(server, service) as one:
            for consumer in CONSUMERS:
                path = f"{consumer.stream}.{consumer.name}"
                for subject in (
                    f"$JS.API.CONSUMER.INFO.{path}",
                    f"$JS.API.CONSUMER.MSG.NEXT.{path}",
                    f"$JS.ACK.{path}.1.1.1.1.0",
                ):
                    assert await one.denied(subject, {}) == (owner[consumer.stream] != service), subject


async def test_the_gateway_makes_consumers_of_events_only(server: NatsServer) -> None:
    async with login(server, "gateway") as gateway:
        for subject in (
            "$JS.API.CONSUMER.CREATE.EVENT.mine",
            "$JS.API.CONSUMER.CREATE.JOB.mine.job.partition.0.*.*",
            "$JS.API.CONSUMER.CREATE.KV_registry.mine.>",
            "$JS.API.CONSUMER.DURABLE.CREATE.EVENT.mine",
            f"$JS.ACK.EVENT.{EVENTS_ARCHIVE}.1.1.1.1.0",
        ):
            assert await gateway.denied(subject, {}), subject
