"""The events service as a process beside a service of another release: it waits, says why, and goes on by itself."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.events import NodeFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.versions import CONTRACTS, Announcement, Contracts
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.nats.versions import announcements

from . import quick_events

REF = ClusterRef(tenant="acme", cluster="main")
NEXT_BUT_ONE = Contracts(generation=CONTRACTS.generation + 2, oldest=CONTRACTS.generation + 1)


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(nats.settings(), "test")
    yield client
    await bus.close(client)


async def readiness(port: int) -> dict[str, Any]:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            content: dict[str, Any] = await answer.json()
            return content
    except aiohttp.ClientConnectionError:
        return {"ready": False, "failing": []}


async def test_an_incompatible_release_keeps_a_service_waiting_and_its_work_is_not_lost(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    other = Announcement(service="scaler", instance="new", software="9.0", contracts=NEXT_BUT_ONE, working=True)
    body, headers = encode(other)
    await client.jetstream().publish(f"$KV.versions.{other.key}", body, headers=headers, msg_ttl=300)
    port = free_port()
    settings = {**environment, "CLUSTERRA_HEALTH_PORT": str(port), "CLUSTERRA_SOFTWARE_VERSION": "1.0-g1234"}
    process = await start("events", [sys.executable, quick_events.__file__], log=tmp_path / "events.log", env=settings)
    try:
        told = await until(lambda: incompatibility(port), seconds=60, what="its problem", every=0.1, process=process)

        assert f"events 1.0-g1234 do not go with scaler new (version 9.0, contracts {NEXT_BUT_ONE})" in told
        assert "update this service to their release" in told

        await EventPublisher(client, "proxy").publish(
            REF, NodeFact(kind="node.down", node="n1"), version="1", time=now()
        )
        with pytest.raises(RpcFailed):
            await history(client)

        await client.jetstream().purge_stream("KV_versions", subject=f"$KV.versions.{other.key}")
        await until(lambda: is_ready(port), seconds=60, what="readiness", every=0.1, process=process)
        archived = await until(lambda: history(client), seconds=90, what="the event", every=0.1, process=process)

        assert [event.subject for event in archived] == ["n1"]
        (own,) = (await announcements(client))[0]
        assert (own.service, own.software, own.contracts, own.working) == ("events", "1.0-g1234", CONTRACTS, True)
    finally:
        await process.stop()
    assert (await announcements(client))[0] == []


async def incompatibility(port: int) -> str:
    return next((text for text in (await readiness(port))["failing"] if text.startswith("versions: ")), "")


async def is_ready(port: int) -> bool:
    return bool((await readiness(port))["ready"])


async def history(client: Client) -> list[Any]:
    page = await call(client, subjects.history(REF), ReadHistory(), HistoryPage, timeout_seconds=2)
    return list(page.events)
