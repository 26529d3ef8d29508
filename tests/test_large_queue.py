"""The queue of a large cluster on its way from the proxy to the scaler, over a real NATS server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from clusterra_contracts.bus import large_queue, subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.bus.large_queue import decode_head
from clusterra_contracts.bus.topology import CONSUMERS, JOB, scaler_consumer
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueCounts, QueueSnapshot
from clusterra_lab.machine.process import until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.watch import snapshot_sender
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.pace import Pace
from clusterra_proxy.watch.snapshot_publisher import SnapshotPublisher
from clusterra_proxy.watch.snapshot_sender import send_snapshot
from clusterra_runtime.nats import bus, queue
from clusterra_runtime.nats.broker import broker, durable
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last_stored
from clusterra_runtime.nats.queue import last_head, last_snapshot
from clusterra_runtime.settings import ServiceSettings
from job_records import job
from large_queue import large_snapshot

REF = ClusterRef(tenant="acme", cluster="c1")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path) as server:
        yield server


@pytest.fixture
def service_settings(server: NatsServer) -> ServiceSettings:
    return server.settings()


@pytest.fixture
async def client(service_settings: ServiceSettings) -> AsyncIterator[Client]:
    connection = await bus.connect(service_settings, "test")
    yield connection
    await bus.close(connection)


async def test_a_large_queue_is_told(client: Client) -> None:
    snapshot = large_snapshot(100_000, 60_000, 5_000)

    await send_snapshot(client, REF, snapshot)

    assert await last_snapshot(client, REF) == snapshot


async def test_a_consumer_receives_a_large_queue_without_its_lists(
    client: Client, service_settings: ServiceSettings
) -> None:
    """The scaler pulls the snapshots of all its clusters on one event loop."""
    consumer = {each.name: each for each in CONSUMERS}[scaler_consumer(subjects.job_shard(REF))]
    received: list[QueueSnapshot] = []

    async def receive(_subject: object, snapshot: QueueSnapshot, _sequence: int) -> None:
        received.append(snapshot)

    async with broker(service_settings, "test", client=client) as consuming:
        await consuming.start()
        pulled = durable(consuming, consumer, decode_head, receive)
        await pulled.start()

        await send_snapshot(client, REF, large_snapshot(6000, 1000, 100))
        await until(lambda: bool(received), seconds=60, what="the head of the snapshot")
        await pulled.stop()

    assert received[0].is_head
    assert received[0].counts == QueueCounts(pending=6000, running=1000, nodes=100)
    assert await last_head(client, REF) == received[0]


async def test_a_large_queue_is_written_and_read_beside_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def recorded[**P, T](work: Callable[P, T]) -> Callable[P, T]:
        def wrapper(*arguments: P.args, **named: P.kwargs) -> T:
            threads.append(threading.current_thread())
            return work(*arguments, **named)

        return wrapper

    for module, name in ((snapshot_sender, "encode_large"), (queue, "decode_snapshot")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))

    await send_snapshot(client, REF, large_snapshot(20_000, 10_000, 1000))
    await last_snapshot(client, REF)

    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_small_queue_is_json_that_earlier_releases_read(client: Client) -> None:
    snapshot = large_snapshot(100, 20, 5)

    await send_snapshot(client, REF, snapshot)

    stored = await last_stored(client, JOB.name, subjects.job_sharded(REF))
    assert stored is not None
    assert QueueSnapshot.model_validate(json.loads(stored.body)) == snapshot


async def test_an_earlier_release_reads_a_large_queue_whole(client: Client) -> None:
    snapshot = large_snapshot(6000, 20, 5)

    await send_snapshot(client, REF, snapshot)

    stored = await last_stored(client, JOB.name, subjects.job_sharded(REF))
    assert stored is not None
    assert decode(QueueSnapshot, stored.body, stored.headers).running == snapshot.running


async def test_a_queue_of_a_proxy_that_tells_parts_is_one_that_could_not_be_read(client: Client) -> None:
    """A proxy of the release before sends the lists of a large queue in other messages."""
    told = {"generation": 1, "taken_at": now().isoformat(), "pending": None, "running": None, "nodes": None}
    told["parts"] = {"slot": 0, "count": 8, "counts": {"pending": 6000, "running": 1000, "nodes": 100}}
    await bus.store(client, subjects.job_pending(REF), json.dumps(told).encode(), {})

    snapshot = await last_snapshot(client, REF)

    assert snapshot is not None
    assert (snapshot.is_head, snapshot.pending, snapshot.running, snapshot.nodes) == (False, None, None, None)


async def test_a_queue_that_cannot_be_told_makes_the_cluster_degraded_until_it_can(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition, table = Condition(REF), JobTable()
    table.replace((job(number, cpus=number) for number in range(1, 6001)), now())
    observed = {"jobs": table, "nodes": {}, "jobs_observed_at": now(), "nodes_observed_at": now()}
    observed |= dict.fromkeys(("unreadable_jobs", "unreadable_nodes", "unidentified_jobs", "unidentified_nodes"), 0)
    observed |= {"nodes_version": 0, "mint": SimpleNamespace(names=())}
    cluster = cast(Cluster, SimpleNamespace(ref=REF, condition=condition, owner_name=lambda record: "ada", **observed))
    monkeypatch.setattr(large_queue, "MAX_BODY_BYTES", 1000)
    publisher = SnapshotPublisher(cluster, client, Intervals(Pace(0.5), 5.0, 10.0))
    publishing = asyncio.create_task(publisher.run())

    publisher.wake()
    await until(lambda: bool(condition.degraded), seconds=60, what="a degraded cluster")
    told = condition.degraded["queue_too_large"].message
    monkeypatch.undo()
    await until(lambda: not condition.degraded, seconds=60, what="a recovered cluster")
    publishing.cancel()

    assert "when compressed" in told
    assert await last_head(client, REF) is not None
