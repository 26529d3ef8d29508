"""The nodes that Karpenter buys for workers, and how much of one is left for its worker. Pure.

A node holds one worker: a NodePool for each family, in it as many vCPUs as the shape has, and a pod that asks for all
that kubelet, the hypervisor and the daemons leave.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusterra_contracts.shapes import Family, Shape

FAMILY_LABEL = "clusterra.io/family"
WORKER_TAINT = "clusterra.io/worker"
"""On the nodes, so that nothing but workers and the daemons gets there."""
GPU_TAINT = "clusterra.io/gpu"
"""On nodes with GPUs besides, so that no worker without GPUs gets there."""
GPU_LABEL = "nvidia.com/gpu.present"
"""On nodes with GPUs: where the device plugin runs, as NVIDIA's chart has it."""
GPU_RESOURCE = "nvidia.com/gpu"
"""What the device plugin lets a node offer: a pod that asks for it waits until the plugin has found the GPUs."""
CPU_LABEL = "karpenter.k8s.aws/instance-cpu"
NODE_CLASS = "slurmd"
NODE_POOL_LABEL = "karpenter.sh/nodepool"
"""On each NodeClaim and each node: the NodePool that it was bought for."""

INSTANCE_FAMILIES: dict[Family, tuple[str, ...]] = {
    "compute": ("c7g", "c6g", "c7i", "c6i"),
    "general": ("m7g", "m6g", "m7i", "m6i"),
    "memory": ("r7g", "r6g", "r7i", "r6i"),
    "l4": ("g6",),
    "a10g": ("g5",),
    "a100": ("p4d",),
    "h100": ("p5",),
}
"""Of 2, 4 and 8 GiB per vCPU, arm64 (`g`) and amd64 (`i`), and with GPUs, amd64: family and vCPUs give the rest."""

KUBELET_CPU_MILLIS = 400
KUBELET_MEMORY_MIB = 1200
"""The node class sets both as `kubeReserved`: for kubelet, the container runtime and the system."""
EVICTION_MEMORY_MIB = 100
"""kubelet's own threshold (`evictionHard`), which is not allocatable."""
HYPERVISOR_MEMORY = 0.075
"""The part of a machine's memory that its system does not see: Karpenter's default `VM_MEMORY_OVERHEAD_PERCENT`."""
DAEMONS_CPU_MILLIS = 200
DAEMONS_MEMORY_MIB = 256
"""For all DaemonSets of a node together, such as CNI, kube-proxy and the storage drivers."""
GPU_DAEMONS_CPU_MILLIS = 100
GPU_DAEMONS_MEMORY_MIB = 256
"""For those that only nodes with GPUs have, such as the device plugin and an exporter of metrics."""
_MOST_PODS = 20
"""A worker and the daemons: the network gives out no more addresses than that."""

_FAMILY_CPUS = 1024
"""What a family may have at once: a bound for mistakes, not a budget."""
_ROOT_VOLUME = "100Gi"


@dataclass(frozen=True, slots=True)
class Room:
    """Of a node, in thousandths of a CPU and in MiB."""

    cpu_millis: int
    memory_mib: int


def allocatable(shape: Shape) -> Room:
    """What Karpenter and the scheduler may give to pods on a node of this shape."""
    seen_mib = int(shape.memory_mib * (1 - HYPERVISOR_MEMORY))
    return Room(1000 * shape.vcpu - KUBELET_CPU_MILLIS, seen_mib - KUBELET_MEMORY_MIB - EVICTION_MEMORY_MIB)


def daemons_room(shape: Shape) -> Room:
    """What the DaemonSets of a node may ask for together."""
    if shape.gpu_count:
        return Room(DAEMONS_CPU_MILLIS + GPU_DAEMONS_CPU_MILLIS, DAEMONS_MEMORY_MIB + GPU_DAEMONS_MEMORY_MIB)
    return Room(DAEMONS_CPU_MILLIS, DAEMONS_MEMORY_MIB)


def worker_room(shape: Shape) -> Room:
    """What the one worker of a node gets: all that the daemons leave."""
    whole, daemons = allocatable(shape), daemons_room(shape)
    return Room(whole.cpu_millis - daemons.cpu_millis, whole.memory_mib - daemons.memory_mib)


def pool_name(family: Family) -> str:
    """The name of a family's NodePool."""
    return f"slurmd-{family}"


def node_pool(family: Family, shapes: Iterable[Shape]) -> dict[str, Any]:
    """The NodePool of a family, for the sizes that its shapes have.

    Nodes are only taken away when they are empty, and they never expire: an expired node begins to drain whatever runs
    on it. There is no `terminationGracePeriod` either, for that overrides `karpenter.sh/do-not-disrupt`.

    Nodes with GPUs have no startup taint: nothing would take it away, for NVIDIA's device plugin does not. Karpenter
    itself waits for the plugin (it counts no node as initialized that lacks a resource it was bought for).
    """
    own = [shape for shape in shapes if shape.family == family]
    sizes = sorted({shape.vcpu for shape in own})
    gpus = any(shape.gpu_count for shape in own)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool_name(family), "labels": {FAMILY_LABEL: family}},
        "spec": {
            "template": {
                "metadata": {"labels": {FAMILY_LABEL: family, **({GPU_LABEL: "true"} if gpus else {})}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": NODE_CLASS},
                    "taints": [
                        {"key": key, "value": "true", "effect": "NoSchedule"}
                        for key in (WORKER_TAINT, *([GPU_TAINT] if gpus else []))
                    ],
                    "requirements": [
                        _one_of("karpenter.k8s.aws/instance-family", INSTANCE_FAMILIES[family]),
                        _one_of(CPU_LABEL, map(str, sizes)),
                        _one_of("kubernetes.io/arch", ("amd64",) if gpus else ("arm64", "amd64")),
                        _one_of("kubernetes.io/os", ("linux",)),
                        _one_of("karpenter.sh/capacity-type", ("spot", "on-demand")),
                    ],
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                # A worker that is wanted again within three minutes finds its node: it starts in a second.
                "consolidateAfter": "180s",
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "10%", "reasons": ["Drifted"]},
                ],
            },
            "limits": {"cpu": str(_FAMILY_CPUS)},
        },
    }


def node_class() -> dict[str, Any]:
    """The EC2NodeClass of all families. Role, discovery tags and image version are the site's to set."""
    discovery = "karpenter.sh/discovery"
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": NODE_CLASS},
        "spec": {
            "role": "replace-me",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {discovery: "replace-me"}}],
            "securityGroupSelectorTerms": [{"tags": {discovery: "replace-me"}}],
            "associatePublicIPAddress": False,
            # One hop is the node itself: no pod gets at the node's credentials.
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "volumeType": "gp3",
                        "volumeSize": _ROOT_VOLUME,
                        "encrypted": True,
                        "deleteOnTermination": True,
                    },
                }
            ],
            "kubelet": {
                "maxPods": _MOST_PODS,
                "kubeReserved": {"cpu": f"{KUBELET_CPU_MILLIS}m", "memory": f"{KUBELET_MEMORY_MIB}Mi"},
                "evictionHard": {"memory.available": f"{EVICTION_MEMORY_MIB}Mi"},
            },
            "tags": {"clusterra.io/component": "worker"},
        },
    }


def _one_of(key: str, values: Iterable[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
