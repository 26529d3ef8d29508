"""What the permissions of central services let them do with consumers, at a real server."""

import asyncio
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
from clusterra_contracts.bus.topology import BOUNDS, CONSUMERS, EVENTS_ARCHIVE, EVENTS_LEDGER
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.direct import Stored
from clusterra_runtime.nats.streams.follow import Follower
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
@pytest.mark.parametrize("service", CENTRAL_SERVICES)
async def test_no_service_makes_a_consumer_that_pushes_messages_to_a_subject_of_its_choice(
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
            "$JS.API.CONSUMER.CREATE.EVENT.mine.event.*.*.admin.x",
            "$JS.API.CONSUMER.DURABLE.CREATE.EVENT.mine",
        ):
            assert await other.denied(subject, pushing("mine", to, "event.>"))
        names = [each.name for each in await admin.client.jetstream().consumers_info("EVENT")]

    assert sorted(names) == [EVENTS_ARCHIVE, EVENTS_LEDGER]
    assert not reached


@pytest.mark.parametrize("service", CENTRAL_SERVICES)
async def test_nobody_deletes_a_durable_consumer(service: CentralService, server: NatsServer) -> None:
    async with login(server, service) as one:
        for consumer in CONSUMERS:
            assert await one.denied(f"$JS.API.CONSUMER.DELETE.{consumer.stream}.{consumer.name}", {})


async def test_a_service_pulls_from_its_own_durable_consumers_only(server: NatsServer) -> None:
    owner = {"JOB": "scaler", "EVENT": "events", "EDGE_EVENT": "events"}
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


@pytest.mark.parametrize("service", CENTRAL_SERVICES)
async def test_no_service_makes_a_consumer_of_any_stream(service: CentralService, server: NatsServer) -> None:
    async with login(server, service) as one:
        for stream in BOUNDS:
            for subject in (
                f"$JS.API.CONSUMER.CREATE.{stream}",
                f"$JS.API.CONSUMER.CREATE.{stream}.mine",
                f"$JS.API.CONSUMER.CREATE.{stream}.mine.>",
                f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.mine",
                f"$JS.API.STREAM.UPDATE.{stream}",
                f"$JS.API.STREAM.CREATE.{stream}",
            ):
                assert await one.denied(subject, {}), subject


async def test_the_gateway_follows_events_without_a_consumer(server: NatsServer) -> None:
    found: list[Stored] = []
    client = await bus.connect(server.settings("gateway"), "gateway")
    follower = Follower(client, "EVENT", "event.>", found.extend)
    await follower.begin()
    running = asyncio.create_task(follower.run())
    try:
        await bus.store(client, "event.acme.main.admin.x", b"a fact", {})
        await until(lambda: bool(found), seconds=30, what="the event")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.close(client)

    assert [each.body for each in found] == [b"a fact"]
