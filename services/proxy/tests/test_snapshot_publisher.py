"""The publisher on a real NATS: a quiet queue costs no snapshot at a poll, and no change waits for one that is due."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_lab.machine.process import until
from clusterra_lab.machine.secret_file import write_secret
from clusterra_lab.parts.nats import nats_server
from clusterra_proxy.cluster.cluster import Cluster, open_cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.pace import Pace
from clusterra_proxy.watch.snapshot_lists import SnapshotLists
from clusterra_proxy.watch.snapshot_publisher import SnapshotPublisher
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.queue import last_snapshot
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.settings import ServiceSettings
from job_records import job, node

pytestmark = pytest.mark.servers

REF = ClusterRef(tenant="acme", cluster="main")
LONG_SECONDS = 500.0


class Published:
    """A cluster whose queue is published, and how often its lists were made."""

    def __init__(self, cluster: Cluster, client: bus.Client) -> None:
        self.cluster = cluster
        self.client = client
        self.made = 0
        self.publisher = SnapshotPublisher(cluster, client, Intervals(Pace(0.5), LONG_SECONDS, 5.0))

    def poll(self) -> None:
        """What the watcher does after a poll that found everything as it was."""
        self.cluster.jobs_observed_at = self.cluster.nodes_observed_at = now()
        self.publisher.on_poll()

    async def until(self, wanted: Callable[[QueueSnapshot], bool]) -> QueueSnapshot:
        """Wait until the stored snapshot is as wanted."""

        async def found() -> QueueSnapshot | None:
            last = await last_snapshot(self.client, REF)
            return last if last is not None and wanted(last) else None

        return await until(found, seconds=30, what="a snapshot", every=0.01)


@pytest.fixture
async def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Published]:
    write_secret(tmp_path / "key", "0123456789abcdef" * 4)
    binding = ClusterBinding(
        name="main",
        slurmrestd_url="http://127.0.0.1:1",
        jwt_key=f"file:{tmp_path / 'key'}",
        operator=SlurmUser(name="operator", uid=64031, gid=64031),
        catalogue=Catalogue(
            shapes=(
                Shape(name="general-small", family="general", size="small", vcpu=4, memory_gib=8, usd_per_hour=0.1),
            )
        ),
    )
    async with nats_server(tmp_path / "nats") as nats, Secrets() as secrets:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
        try:
            await topology.apply(client)
            async with open_cluster(REF, binding, secrets, Condition(REF)) as cluster:
                held = Published(cluster, client)
                original = SnapshotLists.jobs

                def counted(lists: SnapshotLists, *given: object) -> object:
                    held.made += 1
                    return original(lists, *given)  # type: ignore[arg-type]

                monkeypatch.setattr(SnapshotLists, "jobs", counted)
                cluster.jobs.put(job(1, "RUNNING"), now())
                cluster.nodes = {"w1": node()}
                running = asyncio.create_task(held.publisher.run())
                held.poll()
                await held.until(lambda snapshot: len(snapshot.running or ()) == 1)
                yield held
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        finally:
            await bus.close(client)


async def test_polls_that_read_nothing_make_no_snapshot(published: Published) -> None:
    made = published.made

    for _ in range(20):
        published.poll()
        await asyncio.sleep(0)
    published.cluster.jobs.put(job(2, "RUNNING"), now())
    published.poll()

    await published.until(lambda snapshot: len(snapshot.running or ()) == 2)
    assert published.made == made + 1


async def test_a_job_that_is_gone_is_published_at_the_next_poll(published: Published) -> None:
    published.cluster.jobs.replace((), now())
    published.poll()

    assert (await published.until(lambda snapshot: snapshot.running == ())).pending == ()


async def test_lists_that_could_not_be_read_are_published_at_the_next_poll(published: Published) -> None:
    published.cluster.jobs_observed_at = None
    published.publisher.on_poll()

    assert (await published.until(lambda snapshot: snapshot.running is None)).nodes is not None


async def test_a_changed_node_is_published_at_the_next_poll(published: Published) -> None:
    published.cluster.nodes = {"w1": node("w1", "DOWN")}
    published.cluster.nodes_version += 1
    published.poll()

    await published.until(lambda snapshot: [each.states for each in snapshot.nodes or ()] == [("DOWN",)])


async def test_a_learned_name_is_published_at_the_next_poll(published: Published) -> None:
    published.cluster.mint.names.learn(SlurmUser(name="ada", uid=5001, gid=5001))
    published.poll()

    await published.until(lambda snapshot: [each.user for each in snapshot.running or ()] == ["ada"])


async def test_what_was_read_for_a_request_waits_for_no_poll(published: Published) -> None:
    published.cluster.nodes = {"w1": node("w1", "DRAIN")}
    published.publisher.wake()

    await published.until(lambda snapshot: [each.states for each in snapshot.nodes or ()] == [("DRAIN",)])
    assert published.publisher.urgent


async def test_while_a_job_waits_every_poll_is_published(published: Published) -> None:
    published.cluster.jobs.put(job(3), now())
    published.poll()
    first = await published.until(lambda snapshot: bool(snapshot.pending))

    async def later() -> bool:
        published.poll()
        last = await last_snapshot(published.client, REF)
        return last is not None and last.generation > first.generation

    await until(later, seconds=30, what="another snapshot", every=0.05)
