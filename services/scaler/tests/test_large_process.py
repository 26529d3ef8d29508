"""Large clusters are decided for in a process of their own, which may die at any time, and dies with its scaler."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import delete_binding, put_binding
from clusterra_runtime.process_metrics import SUBPROCESSES, families
from fleet_examples import binding, group
from prometheus_client.parser import text_string_to_metric_families
from stand_ins import Neighbours, neighbours, tell_large


class Scaler:
    """A scaler process and its log."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def events(self, event: str) -> list[dict[str, object]]:
        lines = [line for line in self.process.log.read_text().splitlines() if line.startswith("{")]
        return [entry for line in lines if (entry := json.loads(line)).get("event") == event]

    def large(self) -> list[int]:
        """The processes for large clusters that it has started."""
        return [int(str(entry["pid"])) for entry in self.events("large_process_started")]

    async def metrics(self) -> str:
        (starting,) = self.events("service_starting")
        async with aiohttp.ClientSession() as http, http.get(f"http://{starting['health']}/metrics") as answer:
            return await answer.text()


@pytest.fixture
async def scaler(environment: dict[str, str], tmp_path: Path) -> AsyncIterator[Scaler]:
    argv = [sys.executable, "-m", "clusterra_scaler"]
    process = await start("scaler", argv, log=tmp_path / "scaler.log", env=environment)
    yield Scaler(process)
    await process.stop()


@asynccontextmanager
async def large_cluster(client: Client, ref: ClusterRef) -> AsyncIterator[Neighbours]:
    """A cluster whose first large queue was decided on."""
    await put_binding(client, ref, binding())
    async with neighbours(client, ref) as cluster:
        await tell_large(client, ref, group("1", "2", cpus=2))
        await until(lambda: replicas(cluster) == 2, seconds=60, what="a desired state from a large queue")
        yield cluster
    await delete_binding(client, ref)


def replicas(cluster: Neighbours) -> int:
    return sum(target.replicas for target in (cluster.desired[-1].targets or ())) if cluster.desired else 0


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")
    return True


async def test_a_killed_process_is_started_again_and_decides(client: Client, ref: ClusterRef, scaler: Scaler) -> None:
    async with large_cluster(client, ref) as cluster:
        (first,) = scaler.large()

        os.kill(first, signal.SIGKILL)
        await until(lambda: gone(first), seconds=30, what="the end of the process")
        await tell_large(client, ref, group("1", "2", "3", cpus=2))
        await until(lambda: replicas(cluster) == 3, seconds=90, what="a desired state of the next process")

        assert len(scaler.large()) == 2
        assert scaler.events("lease_ended") == []
        # A queue that has become smaller is still decided there: each move is a takeover.
        cluster.pending = (group("1", "2", "3", "4", cpus=2),)
        await cluster.publish_snapshot()
        await until(lambda: replicas(cluster) == 4, seconds=90, what="a desired state from a small queue")
        assert scaler.events("cluster_is_small_again") == []


async def test_its_metrics_are_those_of_the_scaler_until_the_cluster_is_removed(
    client: Client, ref: ClusterRef, scaler: Scaler
) -> None:
    series = (
        f'clusterra_cluster_desired_generation{{cluster="{ref.cluster}",process="large",tenant="{ref.tenant}"}} 1.0'
    )
    async with large_cluster(client, ref):

        async def told() -> str | None:
            return text if series in (text := await scaler.metrics()) else None

        text = await until(told, seconds=90, what="the metrics of a large cluster")

        names = [family.name for family in text_string_to_metric_families(text)]
        assert len(names) == len(set(names)), "a metric has two groups of series"
        assert "clusterra_scaler_large_clusters 1.0" in text

        await delete_binding(client, ref)

        async def forgotten() -> bool:
            return f'tenant="{ref.tenant}"' not in (text := await scaler.metrics()) and "_large_clusters 0.0" in text

        await until(forgotten, seconds=90, what="no large cluster")
        assert not gone(scaler.large()[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_process_ends_with_its_scaler(
    client: Client, ref: ClusterRef, scaler: Scaler, number: signal.Signals
) -> None:
    async with large_cluster(client, ref):
        (pid,) = scaler.large()

        scaler.process.signal(number)
        code = await scaler.process.wait()

        assert code == (0 if number == signal.SIGTERM else -number)
        await until(lambda: gone(pid), seconds=30, what="the end of the process")


@pytest.fixture
def subprocess_metrics() -> Iterator[None]:
    yield
    SUBPROCESSES.forget("test")


@pytest.mark.usefixtures("subprocess_metrics")
def test_metrics_of_a_subprocess_have_its_name() -> None:
    SUBPROCESSES.tell("test", families())

    merged = {metric.name: metric for metric in SUBPROCESSES.collect()}

    def processes(name: str) -> list[str | None]:
        return [sample.labels.get("process") for sample in merged[name].samples]

    assert processes("clusterra_nats_connected") == [None, "test"]
    # An alert fires for a service that is not ready.
    assert processes("clusterra_ready") == [None]
