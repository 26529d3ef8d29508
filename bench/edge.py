"""Measures the edge-agent on Kubernetes: time until the API server accepts a change, memory and CPU for many workers.

Uses a real API server with its controllers, KWOK nodes, a real NATS server, and the agent as a process with the rights
of k8s/edge. Prints one JSON line last; `Edge.relist` explains two of its figures. `--changes` and `--replicas` shorten
the run.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
from clusterra_contracts.bus import permissions, subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import Shape
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.machine.ports import reserved_ports
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime import catalogue
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client
from prometheus_client.parser import text_string_to_metric_families

REF = ClusterRef(tenant="acme", cluster="c1")
ROOT = Path(__file__).parents[1]
NAMESPACE = "slurm"
IDLE_SECONDS = 30.0
RELISTS = 5
LIST_SECONDS = "clusterra_edge_list_seconds"


class Edge:
    """An edge-agent, and its last heartbeat at the centre."""

    def __init__(self, plane: ControlPlane, centre: Client, shapes: tuple[Shape, ...]) -> None:
        self.plane, self._centre = plane, centre
        self.shapes = {shape.name: shape for shape in shapes}
        self.last: Heartbeat | None = None
        self.heartbeats = 0
        self.agent: Process
        self.metrics_url = ""
        self._generation = 0

    async def receive(self, _about: Subject, heartbeat: Heartbeat) -> None:
        self.last = heartbeat
        self.heartbeats += 1

    async def desire(self, replicas: dict[str, int], victims: tuple[str, ...] = ()) -> float:
        """Publish a desired state, wait until the API server has accepted it, and return the seconds between."""
        self._generation += 1
        targets = tuple(
            ShapeTarget(
                shape=shape,
                worker=self.shapes[shape].worker,
                replicas=count,
                victims=tuple(name for name in victims if name.startswith(f"slurmd-{shape}-")),
            )
            for shape, count in replicas.items()
        )
        published = now()
        desired = DesiredState(
            generation=self._generation, fence=1, snapshot_generation=1, decided_at=published, targets=targets
        )
        await bus.publish_durable(self._centre, subjects.scale_desired(REF), desired, message_id=str(self._generation))

        def applied() -> bool:
            beat = self.last
            return beat is not None and beat.applied is not None and beat.applied.generation == self._generation

        await until(applied, seconds=60, what=f"generation {self._generation}", every=0.005, process=self.agent)
        assert self.last is not None
        assert self.last.applied is not None
        return (self.last.applied.applied_at - published).total_seconds()

    async def workers_running(self, count: int) -> list[str]:
        """Wait until exactly `count` workers run, and return their names."""

        def all_run() -> bool:
            workers = self.last.workers if self.last else None
            return (
                workers is not None and len(workers) == count and all(worker.phase == "running" for worker in workers)
            )

        await until(all_run, seconds=900, what=f"{count} running workers", every=0.05, process=self.agent)
        assert self.last is not None
        return [worker.name for worker in self.last.workers or ()]

    async def pod_lists(self) -> tuple[int, float]:
        """How often the agent has listed all pods, and the total seconds of these lists."""
        async with aiohttp.ClientSession() as http, http.get(self.metrics_url) as answer:
            families = list(text_string_to_metric_families(await answer.text()))
        values = {
            sample.name.removeprefix(LIST_SECONDS): sample.value
            for family in families
            if family.name == LIST_SECONDS
            for sample in family.samples
            if sample.labels.get("collection") == "pods" and "le" not in sample.labels
        }
        return int(values["_count"]), values["_sum"]

    async def relist(self, shape: str, replicas: int, count: int) -> tuple[float, float]:
        """Reconnect the agent to a restarted API server, which cannot resume the agent's watches.

        The agent is stopped (SIGSTOP) while the API server restarts and `shape` gets one more worker. So the figures
        include no start of a worker, and the agent can only report `count` workers after a new list. Returns two times
        in seconds: from the request of the first page to the end of the list, by the agent's own metric
        (`relist_seconds`); and from the agent's continuation (SIGCONT), when it notices the cut connections, to the
        first heartbeat with all workers at the centre (`return_seconds`).
        """
        lists, list_seconds = await self.pod_lists()
        self.agent.signal(signal.SIGSTOP)
        try:
            # Any change that the agent does not receive: the watch cache of the restarted server begins after it.
            await self.plane.kubectl("annotate", "namespace", NAMESPACE, f"relist={count}", "--overwrite")
            await self.plane.kill_api_server()
            await self.plane.start_api_server()
            # Scaled by kubectl. The last desired state names another shape, so the agent does not change this one.
            name = f"--namespace={NAMESPACE}", f"deployment/slurmd-{shape}"
            await self.plane.kubectl("scale", *name, f"--replicas={replicas}")
            await self.plane.kubectl("rollout", "status", *name, "--timeout=120s")
            released = time.monotonic()
        finally:
            self.agent.signal(signal.SIGCONT)
        await self.workers_running(count)
        heard = time.monotonic()
        lists_after, list_seconds_after = await self.pod_lists()
        if lists_after != lists + 1:
            raise RuntimeError(f"the agent has listed {lists_after - lists} times instead of once: no valid figure")
        return list_seconds_after - list_seconds, heard - released


@asynccontextmanager
async def edge(folder: Path, progress: Progress) -> AsyncIterator[Edge]:
    """Run all parts until the block ends, with an agent that has no workers."""
    # Only the fifteen shapes without GPUs, as in earlier runs, so that figures can be compared.
    everything = catalogue.load(ROOT / "catalog" / "shapes.yaml").shapes
    shapes = tuple(shape for shape in everything if not shape.gpu_count)
    users = {"edge": permissions.edge_agent(REF), "centre": permissions.control_plane()}
    async with AsyncExitStack() as running:
        (health_port,) = running.enter_context(reserved_ports(1))
        plane = await running.enter_async_context(control_plane(folder / "kubernetes", progress=progress))
        await running.enter_async_context(kwok_nodes(plane, 10, cpus=100_000, memory_gib=1_000_000))
        nats = await running.enter_async_context(nats_server(folder / "nats", users=users, progress=progress))
        centre = await bus.connect(nats.settings("centre"), "bench")
        running.push_async_callback(bus.close, centre)
        await topology.apply(centre)
        await plane.kubectl("create", "namespace", NAMESPACE)
        for name in ("agent-rights.yaml", "worker-policy.yaml"):
            await plane.kubectl("create", f"--filename={ROOT / 'k8s' / 'edge' / 'base' / name}")
        deployments = {"apiVersion": "v1", "kind": "List", "items": [deployment(shape.name) for shape in shapes]}
        await plane.kubectl("create", "--filename=-", input=json.dumps(deployments))
        environment = {
            **nats.environment("edge"),
            "CLUSTERRA_TENANT": REF.tenant,
            "CLUSTERRA_CLUSTER": REF.cluster,
            "CLUSTERRA_SUBSTRATE": "kubernetes",
            "CLUSTERRA_KUBECONFIG": str(await plane.service_account(NAMESPACE, "edge-agent")),
            "CLUSTERRA_SHARED_DIR": str(folder),
            "CLUSTERRA_STATE_DIR": str(folder / "state"),
            "CLUSTERRA_HEALTH_PORT": str(health_port),
        }
        started = Edge(plane, centre, shapes)
        started.metrics_url = f"http://127.0.0.1:{health_port}/metrics"
        argv = [sys.executable, "-m", "clusterra_edge_agent"]
        started.agent = await start("edge-agent", argv, log=folder / "agent.log", env=environment)
        running.push_async_callback(started.agent.stop)
        await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, started.receive)
        await started.workers_running(0)
        yield started


def deployment(shape: str) -> dict[str, object]:
    """The smallest Deployment that the API server accepts; KWOK runs nothing, so the pods need no resources."""
    labels = {"clusterra.io/shape": shape}
    pod = {"containers": [{"name": "slurmd", "image": "slurmd"}], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"slurmd-{shape}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def measure_changes(edge: Edge, changes: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds from publish to acceptance of each change, by direction; each waits for the pods of the one before."""
    rng, seconds = random.Random(1), {"up": list[float](), "down": list[float]()}
    shape, names = next(iter(edge.shapes)), list[str]()
    for number in range(changes):
        progress(f"changes: {number} of {changes}")
        if len(names) < 2 or (len(names) < 10 and rng.random() < 0.5):
            wanted = len(names) + rng.randint(1, 3)
            seconds["up"].append(await edge.desire({shape: wanted}))
        else:
            victims = tuple(rng.sample(names, rng.randint(1, min(3, len(names)))))
            wanted = len(names) - len(victims)
            seconds["down"].append(await edge.desire({shape: wanted}, victims))
        names = await edge.workers_running(wanted)
    await edge.desire({shape: 0}, tuple(names))
    await edge.workers_running(0)
    return seconds


async def measure_burst(edge: Edge, replicas: int, progress: Progress) -> dict[str, float]:
    """The agent's time and CPU while all pods of one shape start together."""
    progress(f"a burst of {replicas} workers")
    process, began, heartbeats = psutil.Process(edge.agent.pid), time.monotonic(), edge.heartbeats
    before = _cpu_seconds(process)
    await edge.desire({next(iter(edge.shapes)): replicas})
    await edge.workers_running(replicas)
    return {
        "workers": replicas,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(_cpu_seconds(process) - before, 2),
        "heartbeats": edge.heartbeats - heartbeats,
    }


async def measure_size(edge: Edge, replicas: int, progress: Progress) -> dict[str, object]:
    """The agent's memory and CPU with `replicas` workers of each shape, and the times of `relist` with all of them."""
    count = replicas * len(edge.shapes)
    for number, shape in enumerate(edge.shapes, 1):
        progress(f"{number * replicas} of {count} workers")
        await edge.desire({shape: replicas})
        await edge.workers_running(number * replicas)
    process = psutil.Process(edge.agent.pid)
    progress(f"the agent idle for {IDLE_SECONDS:.0f} s")
    await asyncio.sleep(5)
    before = _cpu_seconds(process)
    await asyncio.sleep(IDLE_SECONDS)
    cpu_seconds = _cpu_seconds(process) - before
    rss_mib = process.memory_info().rss / 2**20
    relists = list[tuple[float, float]]()
    for number in range(1, RELISTS + 1):
        progress(f"a new API server: {number} of {RELISTS}")
        relists.append(await edge.relist(next(iter(edge.shapes)), replicas + number, count + number))
    rss_after_mib = process.memory_info().rss / 2**20
    progress("removing the workers")
    # Without the agent, which would mark each worker first; nobody drains thousands together in practice. It is stopped
    # because it would create them again.
    await edge.agent.stop()
    await edge.plane.kubectl("scale", "deployments", "--all", "--replicas=0", f"--namespace={NAMESPACE}")
    return {
        "workers": count,
        "rss_mib": round(rss_mib, 1),
        "rss_after_lists_mib": round(rss_after_mib, 1),
        "idle_cpu_percent": round(100 * cpu_seconds / IDLE_SECONDS, 2),
        "relist_seconds": [round(listed, 2) for listed, _ in relists],
        "return_seconds": [round(heard, 2) for _, heard in relists],
    }


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, round(len(ordered) * percent / 100))], 4) if ordered else 0.0


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=500, help="of each of the catalogue's shapes without GPUs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, console_progress() as progress:
        async with edge(Path(folder), progress) as running:
            seconds = await measure_changes(running, arguments.changes, progress)
            burst = await measure_burst(running, arguments.replicas, progress)
            size = await measure_size(running, arguments.replicas, progress)
    accepted = {
        direction: {"n": len(values), "p50": percentile(values, 50), "p99": percentile(values, 99)}
        for direction, values in seconds.items()
    }
    print(json.dumps({"published -> accepted": accepted, "burst": burst, "agent": size}))


if __name__ == "__main__":
    asyncio.run(main())
