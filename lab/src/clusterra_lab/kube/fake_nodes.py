"""Fake nodes of Kubernetes for scale: KWOK says that their pods run, and nothing runs."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from clusterra_lab.kube.binaries import ensure_binaries
from clusterra_lab.kube.control_plane import ControlPlane
from clusterra_lab.kube.node_removal import remove_nodes
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import Process, start, until

_STAGES = Path(__file__).parents[3] / "kube" / "stages.yaml"
_GROUP = "lab.clusterra.dev/fake-nodes"
"""Label: the prefix of the names, which says whose KWOK looks after the node."""

_PODS_PER_NODE = 10_000
_LEASE_SECONDS = 8
"""KWOK renews four times as often, so within the time after which a silent node counts as lost."""
_START_SECONDS = 60.0

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PrefixTaken(LabProblem):
    """Two sets of fake nodes would have had the same names."""


@asynccontextmanager
async def kwok_nodes(
    plane: ControlPlane,
    count: int,
    *,
    cpus: int = 64,
    memory_gib: int = 512,
    gpus: int = 0,
    labels: Mapping[str, str] = NO_LABELS,
    taints: Sequence[str] = (),
    prefix: str = "fake",
) -> AsyncIterator[None]:
    """`count` Ready nodes, `prefix`-0 and so on, each with `labels`, until the block ends; pods on them run at once.

    `gpus` are offered as NVIDIA's device plugin does; `taints` are keys, each with the value `true` and `NoSchedule`.
    Several may be open for one plane, with different prefixes. At the end their pods are deleted, and the nodes: the
    API server has to answer then. Raises PrefixTaken, BinariesNotBuilt, KubectlFailed, ProcessDied, TimeoutError.
    """
    programs = await ensure_binaries(names=["kwok"])
    selector = f"{_GROUP}={prefix}"
    if await plane.kubectl("get", "nodes", f"--selector={selector}", "--output=name"):
        raise PrefixTaken(f"there are fake nodes '{prefix}-...' in this Kubernetes: give these another prefix")
    resources = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", "pods": str(_PODS_PER_NODE)}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    names = [f"{prefix}-{number}" for number in range(count)]
    nodes = [_node(name, resources, {**labels, _GROUP: prefix}, taints) for name in names]
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
        yield
    finally:
        try:
            await remove_nodes(plane, selector, kwok)
        finally:
            await kwok.stop()


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
