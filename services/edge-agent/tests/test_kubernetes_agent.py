"""The agent as a process on Kubernetes: its own rights there and on a real NATS server, as k8s/edge gives them."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from clusterra_contracts import permissions, subjects
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_contracts.subjects import Subject
from clusterra_lab.kube_binaries import BinariesNotBuilt
from clusterra_lab.kube_nodes import kwok_nodes
from clusterra_lab.kubernetes import ControlPlane, control_plane
from clusterra_lab.nats import nats_server
from clusterra_lab.process import Process, start, until
from clusterra_runtime import bus, topology
from clusterra_runtime.client import Client
from clusterra_runtime.settings import ServiceSettings
from kube_workers import SHAPE, Workers

REF = ClusterRef(tenant="acme", cluster="c1")
USERS = {"edge": permissions.edge_agent(REF), "centre": permissions.control_plane()}
RIGHTS = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "agent-rights.yaml"


class Edge:
    """An agent, and the centre's view of it."""

    def __init__(self, centre: Client, agent: Process, workers: Workers) -> None:
        self.agent = agent
        self.workers = workers
        self.heartbeats: list[Heartbeat] = []
        self._centre = centre
        self._generation = 0

    async def desire(self, replicas: int, *victims: str) -> int:
        """The generation of what is published."""
        self._generation += 1
        spec = WorkerSpec(cpus=2, memory_mib=8192)
        target = ShapeTarget(shape=SHAPE, worker=spec, replicas=replicas, victims=victims)
        desired = DesiredState(
            generation=self._generation, fence=1, snapshot_generation=1, decided_at=now(), targets=(target,)
        )
        message_id = f"{self._generation}"
        await bus.publish_durable(self._centre, subjects.scale_desired(REF), desired, message_id=message_id)
        return self._generation

    async def take(self, _about: Subject, heartbeat: Heartbeat) -> None:
        self.heartbeats.append(heartbeat)

    async def running(self, number: int, generation: int) -> list[str]:
        """The workers of the first heartbeat that says so; their names."""

        def fits(beat: Heartbeat) -> bool:
            workers = beat.workers or ()
            applied = beat.applied is not None and beat.applied.generation == generation
            return applied and len(workers) == number and all(worker.phase == "running" for worker in workers)

        def reached() -> Heartbeat | None:
            return next((beat for beat in self.heartbeats if beat.workers is not None and fits(beat)), None)

        beat = await until(reached, seconds=60, what=f"{number} running workers", process=self.agent)
        return [worker.name for worker in beat.workers or ()]


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    try:
        async with control_plane(tmp_path_factory.mktemp("kubernetes")) as plane, kwok_nodes(plane, 1):
            yield plane
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


@pytest.fixture
async def edge(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Edge]:
    await plane.kubectl("create", "namespace", "slurm")
    await plane.kubectl("create", f"--filename={RIGHTS}")
    workers = Workers(plane, "slurm")
    await workers.deploy()
    async with AsyncExitStack() as running:
        nats = await running.enter_async_context(nats_server(tmp_path / "nats", users=USERS))
        centre = await bus.connect(settings(nats.environment("centre")), "centre")
        running.push_async_callback(bus.close, centre)
        await topology.apply(centre)
        environment = {
            **nats.environment("edge"),
            "CLUSTERRA_TENANT": REF.tenant,
            "CLUSTERRA_CLUSTER": REF.cluster,
            "CLUSTERRA_SUBSTRATE": "kubernetes",
            "CLUSTERRA_KUBECONFIG": str(await plane.service_account("slurm", "edge-agent")),
            "CLUSTERRA_SHARED_DIR": str(tmp_path),
            "CLUSTERRA_STATE_DIR": str(tmp_path / "state"),
        }
        argv = [sys.executable, "-m", "clusterra_edge_agent"]
        agent = await start("edge-agent", argv, log=tmp_path / "agent.log", env=environment)
        running.push_async_callback(agent.stop)
        edge = Edge(centre, agent, workers)
        subscription = await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, edge.take)
        running.push_async_callback(subscription.unsubscribe)
        yield edge


def settings(environment: dict[str, str]) -> ServiceSettings:
    return ServiceSettings(
        nats_url=environment["CLUSTERRA_NATS_URL"],
        nats_user=environment["CLUSTERRA_NATS_USER"],
        nats_password_file=Path(environment["CLUSTERRA_NATS_PASSWORD_FILE"]),
    )


async def test_a_desired_state_becomes_pods_and_they_are_told(edge: Edge) -> None:
    names = await edge.running(4, await edge.desire(4))
    left = await edge.running(3, await edge.desire(3, names[0]))
    assert set(left) == set(names) - {names[0]}
    assert edge.heartbeats[-1].substrate == "kubernetes"
    assert {pod.name for pod in await edge.workers.pods() if pod.active} == set(left)
    assert await edge.running(0, await edge.desire(0, *left)) == []
    assert "403" not in edge.agent.log.read_text(), "a right is missing"
    assert await edge.agent.stop(20) == 0
