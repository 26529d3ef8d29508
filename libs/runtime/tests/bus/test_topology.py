"""The topology: created, corrected and checked against a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus.topology import BUCKETS, CONSUMERS, STREAMS
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import topology
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.topology import TopologyConflict
from clusterra_runtime.settings import ServiceSettings
from nats.js.api import StorageType

from .conftest import connected


async def test_a_second_apply_changes_nothing(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server, connected(ServiceSettings(nats_url=server.url)) as client:
        announced = await topology.apply(client, change=False)
        created = await topology.apply(client)

        assert announced == created
        assert len(created) == len(STREAMS) + len(BUCKETS) + len(CONSUMERS)
        assert all(change.created for change in created)
        assert await topology.apply(client, change=False) == []
        assert await topology.apply(client) == []


async def test_apply_corrects_and_reports_foreign_changes(server: NatsServer) -> None:
    async with connected(ServiceSettings(nats_url=server.url)) as client:
        await request(client, "STREAM.UPDATE.EVENT", max_age=700 * 10**9, metadata={"team": "ops"})
        await request(client, "CONSUMER.CREATE.JOB.scaler-3.job.partition.3.*.*", ack_wait=5 * 10**9)
        changes = {change.what: change.fields for change in await topology.apply(client)}

        assert changes == {
            "stream EVENT": {"max_age": (700 * 10**9, 72 * 3600 * 10**9)},
            "consumer JOB/scaler-3": {"ack_wait": (5 * 10**9, 30 * 10**9)},
        }
        assert await topology.apply(client) == []

        event = await request(client, "STREAM.INFO.EVENT")

        assert event["config"]["metadata"]["team"] == "ops"


async def test_a_stream_of_events_that_is_made_again_has_no_sequence_of_the_one_before(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server, connected(ServiceSettings(nats_url=server.url)) as client:
        js = client.jetstream()
        sequences = list[int]()
        for _ in range(3):
            # Replicas of the job that applies the topology may run at once.
            await asyncio.gather(*(topology.apply(client) for _ in range(4)))
            for _ in range(20):
                sequences.append((await js.publish("event.acme.main.node.down", b"x")).seq)
            await server.kill()
            await server.restart()
            sequences.append((await js.publish("event.acme.main.node.down", b"x")).seq)
            await js.delete_stream("EVENT")

        assert sequences == sorted(set(sequences))
        assert await topology.apply(client) != []
        assert await topology.apply(client) == []


async def test_a_change_that_the_server_rejects_is_a_conflict(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server, connected(ServiceSettings(nats_url=server.url)) as client:
        await client.jetstream().add_stream(name="SCALE", subjects=["scale.desired.*.*"], storage=StorageType.MEMORY)
        with pytest.raises(TopologyConflict, match="SCALE"):
            await topology.apply(client)


async def test_an_entry_of_the_leases_bucket_can_have_a_time_to_live(client: Client, ref: ClusterRef) -> None:
    acknowledged = await client.request(f"$KV.leases.{ref.key}", b"me", headers={"Nats-TTL": "1"}, timeout=2)

    assert "error" not in json.loads(acknowledged.data)

    kept = await client.request(f"$JS.API.DIRECT.GET.KV_leases.$KV.leases.{ref.key}", timeout=2)

    assert kept.data == b"me"

    async def expired() -> bool:
        answer = await client.request(f"$JS.API.DIRECT.GET.KV_leases.$KV.leases.{ref.key}", timeout=2)
        return (answer.headers or {}).get("Status") == "404"

    await until(expired, seconds=90, what="the end of its time")


async def request(client: Client, subject: str, **change: Any) -> dict[str, Any]:
    """Send a request to JetStream's API; `change` overrides fields of the object's present configuration."""
    kind, _, *names = subject.split(".")
    body: dict[str, Any] = {}
    if change:
        info = {"STREAM": f"STREAM.INFO.{names[0]}", "CONSUMER": f"CONSUMER.INFO.{'.'.join(names[:2])}"}[kind]
        body = (await request(client, info))["config"] | change
        if kind == "CONSUMER":
            body = {"stream_name": names[0], "config": body}
    answer = await client.request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"", timeout=2)
    content: dict[str, Any] = json.loads(answer.data)
    assert "error" not in content, content
    return content
