"""The queue of a large cluster on its way from the proxy to the scaler, over a real NATS server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import JOB, JOB_PART
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.queue_parts import split as split_module
from clusterra_contracts.queue_parts.split import Splitter
from clusterra_lab.machine.process import until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.watch import snapshot_sender
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.pace import Pace
from clusterra_proxy.watch.snapshot_publisher import SnapshotPublisher
from clusterra_proxy.watch.snapshot_sender import SnapshotSender
from clusterra_runtime.nats import bus, queue_parts
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last, last_stored
from clusterra_scaler.large_snapshots import LargeSnapshots
from job_records import job
from large_queue import large_snapshot

REF = ClusterRef(tenant="acme", cluster="c1")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with declared_nats(tmp_path) as server:
        connection = await bus.connect(server.settings(), "test")
        yield connection
        await bus.close(connection)


@dataclass
class Reader:
    """A scaler's reader of one cluster, which follows the messages of the stream."""

    client: Client
    read: list[QueueSnapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.snapshots = LargeSnapshots(self.client, REF, self.read.append)

    async def catch_up(self) -> None:
        """Receive the last message of the stream, as a new leader does."""
        found = await last(self.client, JOB.name, subjects.job_partitioned(REF), QueueSnapshot)
        assert found is not None
        self.snapshots.receive(found[0])


@pytest.fixture
async def reader(client: Client) -> AsyncIterator[Reader]:
    reader = Reader(client)
    running = asyncio.create_task(reader.snapshots.run())
    yield reader
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("size", [(50_000, 20_000, 5_000), (100_000, 60_000, 5_000)])
async def test_a_large_queue_is_told(client: Client, reader: Reader, size: tuple[int, int, int]) -> None:
    snapshot = large_snapshot(*size)

    await SnapshotSender(client, REF).send(snapshot)
    await reader.catch_up()
    await until(lambda: bool(reader.read), seconds=60, what="the whole snapshot")

    assert reader.read == [snapshot]


async def test_a_large_queue_is_written_and_read_beside_the_event_loop(
    client: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def recorded[**P, T](work: Callable[P, T]) -> Callable[P, T]:
        def wrapper(*arguments: P.args, **named: P.kwargs) -> T:
            threads.append(threading.current_thread())
            return work(*arguments, **named)

        return wrapper

    for module, name in ((Splitter, "split"), (snapshot_sender, "pack"), (queue_parts, "join")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))

    await SnapshotSender(client, REF).send(large_snapshot(6000, 1000, 100))
    await reader.catch_up()
    await until(lambda: bool(reader.read), seconds=60, what="the whole snapshot")

    assert len(threads) >= 3
    assert threading.main_thread() not in threads


async def test_a_small_queue_is_one_message_that_earlier_releases_read(client: Client) -> None:
    snapshot = large_snapshot(100, 20, 5)

    await SnapshotSender(client, REF).send(snapshot)

    stored = await last_stored(client, JOB.name, subjects.job_partitioned(REF))
    assert stored is not None
    assert len(json.loads(stored.body)["running"]) == 20
    assert await last_stored(client, JOB_PART.name, subjects.job_part(REF, 0, 0)) is None


async def test_an_earlier_release_reads_a_large_queue_as_one_that_nobody_could_read(client: Client) -> None:
    """It changes nothing then."""
    await SnapshotSender(client, REF).send(large_snapshot(6000, 20, 5))

    stored = await last_stored(client, JOB.name, subjects.job_partitioned(REF))

    assert stored is not None
    told = json.loads(stored.body)
    assert [told[name] for name in ("pending", "running", "nodes")] == [None, None, None]


async def test_a_snapshot_with_a_lost_part_does_not_count_and_the_next_one_does(
    client: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_module, "PART_BYTES", 10_000)
    sender = SnapshotSender(client, REF)
    await sender.send(large_snapshot(6000, 1000, 100, generation=1))
    purge = json.dumps({"filter": subjects.job_part(REF, 0, 1)}).encode()
    await client.request(f"$JS.API.STREAM.PURGE.{JOB_PART.name}", purge)

    await reader.catch_up()
    whole = large_snapshot(6000, 1000, 100, generation=2)
    await sender.send(whole)
    await reader.catch_up()
    await until(lambda: bool(reader.read), seconds=90, what="the next snapshot")

    assert reader.read == [whole]


async def test_a_reader_that_joins_while_a_snapshot_is_sent_reads_the_one_before(
    client: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_module, "PART_BYTES", 10_000)
    sender = SnapshotSender(client, REF)
    before = large_snapshot(6000, 1000, 100, generation=1)
    await sender.send(before)
    store = bus.store

    async def interrupted(*arguments: object) -> int:
        """The proxy dies before it has stored the third part."""
        if str(arguments[1]) == subjects.job_part(REF, 1, 2):
            raise bus.BusUnavailable("the proxy is gone")
        return await store(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(bus, "store", interrupted)
        with pytest.raises(bus.BusUnavailable):
            await sender.send(large_snapshot(6000, 1000, 100, generation=2))

    await reader.catch_up()
    await until(lambda: bool(reader.read), seconds=90, what="a snapshot")
    assert reader.read == [before]

    following = SnapshotSender(client, REF)
    stored = await last(client, JOB.name, subjects.job_partitioned(REF), QueueSnapshot)
    assert stored is not None
    following.continue_after(stored[0])
    after = large_snapshot(6000, 1000, 100, generation=3)
    await following.send(after)
    await reader.catch_up()
    await until(lambda: len(reader.read) == 2, seconds=90, what="the snapshot of the next leader")

    assert reader.read[1] == after


async def test_readers_read_whole_snapshots_only_while_one_follows_the_other(
    client: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_module, "PART_BYTES", 10_000)
    sender = SnapshotSender(client, REF)
    sent = [large_snapshot(6000, 500 + number, 100, generation=number) for number in range(1, 13)]
    await sender.send(sent[0])

    async def send() -> None:
        for snapshot in sent[1:]:
            await sender.send(snapshot)

    sending = asyncio.create_task(send())
    while not sending.done():
        await reader.catch_up()
        await asyncio.sleep(0.01)
    await sending
    await reader.catch_up()
    await until(lambda: bool(reader.read) and reader.read[-1] == sent[-1], seconds=90, what="the last snapshot")

    assert all(snapshot in sent for snapshot in reader.read)
    generations = [snapshot.generation for snapshot in reader.read]
    assert generations == sorted(generations)


async def test_a_queue_that_cannot_be_told_makes_the_cluster_degraded_until_it_can(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition, table = Condition(REF), JobTable()
    table.replace((job(number, cpus=number) for number in range(1, 6001)), now())
    observed = {"jobs": table, "nodes": {}, "jobs_observed_at": now(), "nodes_observed_at": now()}
    observed |= {"unreadable_jobs": 0, "unreadable_nodes": 0}
    cluster = cast(Cluster, SimpleNamespace(ref=REF, condition=condition, owner_name=lambda record: "ada", **observed))
    monkeypatch.setattr(split_module, "PART_BYTES", 1000)
    publisher = SnapshotPublisher(cluster, client, Intervals(Pace(0.5), 5.0, 10.0))
    publishing = asyncio.create_task(publisher.run())

    publisher.wake()
    await until(lambda: bool(condition.degraded), seconds=60, what="a degraded cluster")
    told = condition.degraded["queue_too_large"].message
    monkeypatch.undo()
    await until(lambda: not condition.degraded, seconds=60, what="a recovered cluster")
    publishing.cancel()

    assert "more than 128 parts" in told
    assert await last(client, JOB.name, subjects.job_partitioned(REF), QueueSnapshot) is not None
