"""Workers with GPUs as k8s/edge defines them: a real API server and scheduler, and KWOK nodes with and without GPUs."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_contracts.events import WorkerFact
from clusterra_edge_agent.kubernetes.machines.karpenter import CPU_LABEL, FAMILY_LABEL, GPU_TAINT, WORKER_TAINT
from clusterra_edge_agent.kubernetes.machines.stuck import stuck
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.kube.objects import host_volume
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent
from kube_workers import Workers

EDGE = Path(__file__).parents[3] / "k8s" / "edge"
SHAPE = "l4-large"
"""48 vCPUs and 4 GPUs: a g6.12xlarge."""
MACHINE = {FAMILY_LABEL: "l4", CPU_LABEL: "48", "kubernetes.io/arch": "amd64"}
TAINTS = (WORKER_TAINT, GPU_TAINT)


def generated_deployment(family: str, shape: str) -> Any:
    return yaml.safe_load((EDGE / "generated" / family / f"slurmd-{shape}.yaml").read_text())


@pytest.fixture(scope="module")
async def gpu_machines(plane: ControlPlane) -> AsyncIterator[None]:
    """A machine of the shape, and one whose device plugin does not advertise GPUs."""
    machines = partial(kwok_nodes, cpus=48, memory_gib=192, labels=MACHINE, taints=TAINTS)
    async with machines(plane, 1, gpus=4, prefix="seeing"), machines(plane, 1, prefix="blind"):
        yield


@pytest.fixture
async def workers(plane: ControlPlane, gpu_machines: None, namespace: str) -> AsyncIterator[Workers]:
    """A namespace with what the pods of k8s/edge need beside their nodes."""
    workers = Workers(plane, namespace)
    await plane.kubectl("apply", "--server-side", f"--filename={EDGE / 'base' / 'priority.yaml'}")
    await workers.create(yaml.safe_load((EDGE / "base" / "storage.yaml").read_text()))
    volume = host_volume(namespace, f"shared-{namespace}", Path("/mnt/efs"), "ReadWriteMany", storage_class="shared")
    volume["spec"]["claimRef"]["name"] = "shared"
    await plane.kubectl("create", "--filename=-", input=json.dumps(volume))
    await workers.kubectl(
        "wait", "--for=jsonpath={.status.phase}=Bound", "persistentvolumeclaim/shared", "--timeout=60s"
    )
    yield workers
    await plane.kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


async def capacity_message(agent: Agent) -> str:
    """Waits until workers of the shape lack a machine. Returns why."""

    def message() -> str:
        lines = stuck(agent.substrate.pods(), agent.substrate.deployments(), None)
        return next((line.message for line in lines if line.cause == "insufficient_capacity"), "")

    return await until(message, seconds=60, what="a worker without a machine", every=0.05)


async def test_a_gpu_worker_runs_alone_on_a_machine_that_advertises_its_gpus(workers: Workers, tmp_path: Path) -> None:
    await workers.create(generated_deployment("l4", SHAPE))
    facts: list[WorkerFact] = []
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "agent", facts) as running:
        running.desire(1, 1, shape=SHAPE)
        (first,) = await running.running(1, SHAPE)
        running.desire(2, 2, shape=SHAPE)

        assert "Insufficient nvidia.com/gpu" in await capacity_message(running)

        places = {pod.name: pod.spec.node_name for pod in await workers.pods()}
        assert places.pop(first) == "seeing-0"
        assert list(places.values()) == [""]

        running.desire(3, 1, shape=SHAPE)
        assert await running.running(1, SHAPE) == [first]

        running.desire(4, 0, [first], SHAPE)
        assert await running.running(0, SHAPE) == []

    assert {fact.kind for fact in facts} == {"worker.started", "worker.stopped"}


async def test_a_worker_without_gpus_cannot_run_on_a_gpu_machine(workers: Workers, tmp_path: Path) -> None:
    """Not even if it selects such a node: the taint of all worker machines would not be enough."""
    manifest = generated_deployment("general", "general-small")
    manifest["spec"]["template"]["spec"]["nodeSelector"] = MACHINE
    await workers.create(manifest)
    async with agent(workers.kubernetes.kubeconfig, workers.namespace, tmp_path / "agent", []) as running:
        running.desire(1, 1, shape="general-small")
        await running.applied(1)
        assert "2 node(s) had untolerated taint" in await capacity_message(running)
