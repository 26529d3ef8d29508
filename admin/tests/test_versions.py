"""`clusterra-admin versions` on a real server: what runs, what does not go together, and what cannot be read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from admin_command import admin, admin_process
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import Message, encode
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.versions import Announcement, Contracts
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus

pytestmark = pytest.mark.servers

NOW = Contracts(generation=2, oldest=1)
LATER = Contracts(generation=4, oldest=3)


def announcement(service: str, contracts: Contracts) -> tuple[str, Announcement]:
    own = Announcement(service=service, instance=f"{service}-1", software="1.2", contracts=contracts, working=True)
    return f"$KV.versions.{own.key}", own


def heartbeat(cluster: str, contracts: Contracts | None) -> tuple[str, Heartbeat]:
    sent = Heartbeat(
        generation=1,
        sent_at=datetime(2026, 3, 1, tzinfo=UTC),
        agent_version="1.1",
        contracts=contracts,
        substrate="process",
        workers=(),
    )
    return subjects.heartbeat(ClusterRef(tenant="acme", cluster=cluster)), sent


@asynccontextmanager
async def server_with(directory: Path, *stored: tuple[str, Message | bytes]) -> AsyncIterator[NatsServer]:
    async with declared_nats(directory) as server:
        client = await bus.connect(server.settings(), "test")
        for subject, message in stored:
            body, headers = (message, {}) if isinstance(message, bytes) else encode(message)
            await bus.store(client, subject, body, headers)
        await bus.close(client)
        yield server


async def test_all_that_runs_is_listed_and_goes_together(tmp_path: Path) -> None:
    rows = announcement("gateway", NOW), announcement("proxy", NOW), heartbeat("main", None)
    async with server_with(tmp_path, *rows) as server:
        listed = await admin_process("versions", environment=server.environment())

        assert [line.split() for line in listed.out.splitlines()] == [
            ["SERVICE", "INSTANCE", "VERSION", "CONTRACTS", "COMPATIBLE"],
            ["edge-agent", "acme/main", "1.1", "1", "yes"],
            ["gateway", "gateway-1", "1.2", "1", "to", "2", "yes"],
            ["proxy", "proxy-1", "1.2", "1", "to", "2", "yes"],
        ]


async def test_an_incompatible_replica_and_a_bad_record_are_named(tmp_path: Path) -> None:
    rows: list[tuple[str, Message | bytes]] = [
        announcement("gateway", NOW),
        announcement("scaler", LATER),
        heartbeat("main", NOW),
        heartbeat("new", LATER),
        ("$KV.versions.proxy.bad", b"{}"),
        ("heartbeat.acme.odd", b"7"),
    ]
    async with server_with(tmp_path, *rows) as server:
        listed = await admin("versions", "--json", environment=server.environment(), code=2)

        found = {(row["service"], row["instance"]): row for row in listed.json}
        assert found["scaler", "scaler-1"]["with_whom"] == ["gateway gateway-1", "edge-agent acme/main"]
        assert found["edge-agent", "acme/new"]["with_whom"] == ["gateway gateway-1"]
        assert found["proxy", "bad"]["compatible"] is None
        assert found["edge-agent", "acme/odd"]["compatible"] is None
        table = await admin("versions", environment=server.environment(), code=2)
        assert "no, not with gateway gateway-1, edge-agent acme/main" in table.out


async def test_a_server_without_the_bucket_is_told_with_advice(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server:
        answer = await admin("versions", environment=server.environment(), code=1)

        assert "clusterra-admin topology apply" in answer.err
