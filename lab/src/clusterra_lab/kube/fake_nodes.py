"""Fake Kubernetes nodes for tests at scale: KWOK reports their pods as running, and nothing runs."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count as counted
from pathlib import Path
from typing import TypedDict, Unpack

from clusterra_lab.kube.control_plane import ControlPlane
from clusterra_lab.kube.node_removal import remove_nodes
from clusterra_lab.kube.programs.binaries import ensure_binaries
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import Process, start, until

_STAGES = Path(__file__).parents[3] / "kube" / "stages.yaml"
_GROUP = "lab.clusterra.dev/fake-nodes"
"""Label with the prefix of the node's name; it selects the nodes that one KWOK manages."""

_PODS_PER_NODE = 10_000
_LEASE_SECONDS = 8
"""KWOK renews a lease four times in this period, well within the time after which a node counts as lost."""
_START_SECONDS = 120.0


class FakeNodes(TypedDict, total=False):
    """Properties of a set of fake nodes."""

    cpus: int
    """64 by default."""
    memory_gib: int
    """512 by default."""
    gpus: int
    """Number of GPUs, offered like those of NVIDIA's device plugin; none by default."""
    labels: Mapping[str, str]
    taints: Sequence[str]
    """Keys of taints, each with the value `true` and the effect `NoSchedule`."""
    prefix: str
    """Prefix of the names; `fake` by default."""


class PrefixTaken(LabProblem):
    """Two sets of fake nodes were given the same prefix, and so the same names."""


@asynccontextmanager
async def kwok_nodes(plane: ControlPlane, count: int, **properties: Unpack[FakeNodes]) -> AsyncIterator[None]:
    """Add `count` Ready nodes, `prefix`-0 and so on, until the block ends; pods on them run immediately.

    One plane can have several sets, with different prefixes. At the end the pods on the nodes and the nodes are
    deleted, for which the API server must be running. Raises PrefixTaken, BinariesNotBuilt, KubectlFailed, ProcessDied,
    TimeoutError.
    """
    programs = await ensure_binaries(names=["kwok"])
    prefix = properties.get("prefix", "fake")
    selector = f"{_GROUP}={prefix}"
    if await plane.kubectl("get", "nodes", f"--selector={selector}", "--output=name"):
        raise PrefixTaken(f"fake nodes '{prefix}-...' already exist in this Kubernetes: choose another prefix")
    labels = {**properties.get("labels", {}), _GROUP: prefix}
    taints = properties.get("taints", ())
    nodes = [_node(f"{prefix}-{number}", _resources(properties), labels, taints) for number in range(count)]
    kwok = await start(
        f"kwok-{prefix}",
        [
            str(programs / "kwok"),
            f"--kubeconfig={plane.kubeconfig}",
            f"--config={_STAGES}",
            f"--manage-nodes-with-label-selector={selector}",
            f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        ],
        log=plane.directory / f"kwok-{prefix}.log",
    )
    try:
        listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
        await plane.kubectl("create", "--filename=-", input=json.dumps(listed))
        await _all_ready(plane, selector, count, kwok)
        await _all_run_pods(plane, [f"{prefix}-{number}" for number in range(count)], selector, kwok)
        yield
    finally:
        try:
            await remove_nodes(plane, selector, kwok)
        finally:
            await kwok.stop()


def _resources(properties: FakeNodes) -> dict[str, str]:
    cpus, memory_gib, gpus = properties.get("cpus", 64), properties.get("memory_gib", 512), properties.get("gpus", 0)
    resources = {
        "cpu": str(cpus),
        "memory": f"{memory_gib}Gi",
        # Enough for a worker in each pod, because disk is not what these nodes bound.
        "ephemeral-storage": f"{100 * _PODS_PER_NODE}Gi",
        "pods": str(_PODS_PER_NODE),
    }
    return resources | {"nvidia.com/gpu": str(gpus)} if gpus else resources


def _node(
    name: str, resources: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[str]
) -> dict[str, object]:
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {"taints": [{"key": key, "value": "true", "effect": "NoSchedule"} for key in taints]},
        "status": {"capacity": resources, "allocatable": resources},
    }


async def _all_ready(plane: ControlPlane, selector: str, count: int, kwok: Process) -> None:
    ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'

    async def all_ready() -> bool:
        statuses = await plane.kubectl("get", "nodes", f"--selector={selector}", f"--output={ready}")
        return statuses.split() == ["True"] * count

    await until(all_ready, seconds=_START_SECONDS, what=f"{count} fake nodes", every=0.1, process=kwok)


async def _all_run_pods(plane: ControlPlane, names: Sequence[str], selector: str, kwok: Process) -> None:
    """Wait until a pod on each node has run, and delete these pods.

    KWOK makes a node Ready before its own watch has told it that it holds the node's lease. It forgets a pod that comes
    in between, until the pod changes. So the pods are changed until they run.
    """
    pods = [_first_pod(name, selector) for name in names]
    await plane.kubectl("create", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    tries = counted()

    async def all_run() -> bool:
        phases = await plane.kubectl(
            "get", "pods", f"--selector={selector}", "--output=jsonpath={.items[*].status.phase}"
        )
        if phases.split() == ["Running"] * len(names):
            return True
        await plane.kubectl("annotate", "--overwrite", "pods", f"--selector={selector}", f"{_GROUP}={next(tries)}")
        return False

    await until(
        all_run, seconds=_START_SECONDS, what=f"a pod on each of {len(names)} fake nodes", every=0.5, process=kwok
    )
    await plane.kubectl("delete", "pods", f"--selector={selector}", "--grace-period=0")


def _first_pod(node: str, selector: str) -> dict[str, object]:
    key, _, prefix = selector.partition("=")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"first-of-{node}", "namespace": "default", "labels": {key: prefix}},
        "spec": {"nodeName": node, "containers": [{"name": "first", "image": "none"}]},
    }
