"""The agent process on Kubernetes, with the permissions that k8s/edge grants, and on a real NATS server."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from agent_process import REF, USERS, start_agent
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat, Stuck
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.kubernetes.client.api import Collection, connected
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Pod
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import Process, until
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client
from kube_plane import agent_environment
from kube_workers import SHAPE, Workers

MISCLASSIFIED = (
    '{"misclassified": {"expected": {"cpus": 4, "memory_mib": 900}, "actual": {"cpus": 2, "memory_mib": 800}}}'
)
REPORT_SECONDS = 2.0
"""The target. A busy machine may take several times as long."""


class Edge:
    """An agent, and the central side's view of it."""

    def __init__(self, centre: Client, agent: Process, workers: Workers) -> None:
        self.agent = agent
        self.workers = workers
        self.heartbeats: list[Heartbeat] = []
        self.came_at: list[float] = []
        """Arrival time of each heartbeat, on a monotonic clock."""
        self._centre = centre
        self._generation = 0

    async def desire(self, replicas: int, *victims: str) -> int:
        """Publishes a desired state. Returns its generation."""
        self._generation += 1
        spec = WorkerSpec(cpus=2, memory_mib=8192)
        target = ShapeTarget(shape=SHAPE, worker=spec, replicas=replicas, victims=victims)
        desired = DesiredState(
            generation=self._generation, fence=1, snapshot_generation=1, decided_at=now(), targets=(target,)
        )
        message_id = f"{self._generation}"
        await bus.publish_durable(self._centre, subjects.scale_desired(REF), desired, message_id=message_id)
        return self._generation

    async def take(self, _subject: Subject, heartbeat: Heartbeat) -> None:
        self.came_at.append(time.monotonic())
        self.heartbeats.append(heartbeat)

    async def running(self, number: int, generation: int) -> list[str]:
        """Waits for a heartbeat with exactly this many running workers. Returns their names."""

        def fits(beat: Heartbeat) -> bool:
            workers = beat.workers or ()
            applied = beat.applied is not None and beat.applied.generation == generation
            return applied and len(workers) == number and all(worker.phase == "running" for worker in workers)

        def reached() -> Heartbeat | None:
            return next((beat for beat in self.heartbeats if beat.workers is not None and fits(beat)), None)

        beat = await until(reached, seconds=60, what=f"{number} running workers", process=self.agent)
        return [worker.name for worker in beat.workers or ()]


@pytest.fixture
async def edge(plane: ControlPlane, fake_nodes: None, namespace: str, tmp_path: Path) -> AsyncIterator[Edge]:
    workers = Workers(plane, namespace)
    await workers.deploy()
    async with AsyncExitStack() as running:
        nats = await running.enter_async_context(nats_server(tmp_path / "nats", users=USERS))
        centre = await bus.connect(nats.settings("centre"), "centre")
        running.push_async_callback(bus.close, centre)
        await topology.apply(centre)
        agent = await start_agent(nats, tmp_path, await agent_environment(plane, namespace))
        running.push_async_callback(agent.stop)
        edge = Edge(centre, agent, workers)
        subscription = await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, edge.take)
        running.push_async_callback(subscription.unsubscribe)
        yield edge


async def test_a_desired_state_becomes_pods_that_are_reported(edge: Edge) -> None:
    names = await edge.running(4, await edge.desire(4))
    left = await edge.running(3, await edge.desire(3, names[0]))

    assert set(left) == set(names) - {names[0]}
    assert edge.heartbeats[-1].substrate == "kubernetes"
    assert {pod.name for pod in await edge.workers.pods() if pod.active} == set(left)
    assert await edge.running(0, await edge.desire(0, *left)) == []
    assert "403: " not in edge.agent.log.read_text(), "a permission is missing"
    assert await edge.agent.stop(20) == 0


async def test_stuck_workers_are_reported_within_two_seconds(edge: Edge) -> None:
    """Measured from the moment at which Kubernetes knows the cause until the heartbeat has arrived."""
    workers, seconds = edge.workers, dict[str, float]()

    async def reported(cause: str, shape: str, since: float) -> Stuck:
        def reached() -> tuple[float, Stuck] | None:
            for came_at, beat in zip(edge.came_at, edge.heartbeats, strict=True):
                for line in beat.stuck or ():
                    if (line.cause, line.shape) == (cause, shape):
                        return came_at, line
            return None

        came_at, line = await until(reached, seconds=60, what=f"{cause} of {shape}", every=0.01, process=edge.agent)
        seconds[cause] = came_at - since
        return line

    await until(
        lambda: edge.heartbeats and edge.heartbeats[-1].stuck == (),
        seconds=60,
        what="nothing stuck",
        process=edge.agent,
    )
    began = await unschedulable_at(workers, "compute-xs")
    line = await reported("insufficient_capacity", "compute-xs", began)
    assert "node affinity" in line.message
    # Without a scheduler the pods keep their initial state, and the test sets the status as kubelet would.
    await workers.deploy("memory-xs", 2, schedulerName="nobody")
    image, misclassified = sorted(pod.name for pod in await until_created(workers, "memory-xs", 2))
    for cause, name, state in (
        ("image_pull", image, {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}),
        ("misclassified", misclassified, {"terminated": {"exitCode": 78, "message": MISCLASSIFIED}}),
    ):
        began = time.monotonic()
        await workers.set_status(name, "Running", ready=False, state=state)
        line = await reported(cause, "memory-xs", began)
        assert line.workers == 1
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "4"}}}
    await workers.kubectl("create", "--filename=-", stdin=json.dumps(quota))
    began = time.monotonic()
    await edge.desire(1)
    line = await reported("quota", SHAPE, began)
    assert (line.workers, "exceeded quota: q" in line.message) == (0, True)
    await workers.kubectl("delete", "resourcequota", "q")
    print({cause: round(taken, 2) for cause, taken in seconds.items()}, f"of {REPORT_SECONDS} s", file=sys.stderr)
    assert max(seconds.values()) < 5 * REPORT_SECONDS


async def unschedulable_at(workers: Workers, shape: str) -> float:
    """Creates two workers that fit no node. Returns when the API server showed the first as unschedulable."""
    scheduled_at = list[float]()

    def changed(_old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.reason.startswith("Unschedulable"):
            scheduled_at.append(time.monotonic())

    async with connected(workers.namespace, workers.kubernetes.kubeconfig) as api:
        pods = Reflector(api, Collection.pods(api.namespace, f"{SHAPE_LABEL}={shape}"), changed, lambda: None)
        watching = asyncio.create_task(pods.run())
        try:
            await until(lambda: pods.following, seconds=60, what="the reflector to follow")
            await workers.deploy(shape, 2, nodeSelector={"size": "none"})
            await until(lambda: scheduled_at, seconds=60, what="the scheduler's verdict", every=0.01)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    return scheduled_at[0]


async def until_created(workers: Workers, shape: str, number: int) -> list[Pod]:
    async def pods() -> list[Pod]:
        found = [pod for pod in await workers.pods() if pod.shape == shape]
        return found if len(found) == number else []

    return await until(pods, seconds=60, what=f"{number} pods", every=0.05)
