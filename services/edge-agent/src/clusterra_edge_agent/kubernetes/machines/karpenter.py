"""The nodes that Karpenter buys for workers, and the resources that each leaves to its worker. Pure.

A node holds one worker. This takes a NodePool per family, as many vCPUs as the shape has, and a pod that requests
everything that kubelet, the hypervisor and the daemons leave.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusterra_contracts.shapes import Family, Shape

FAMILY_LABEL = "clusterra.io/family"
WORKER_TAINT = "clusterra.io/worker"
"""Taint of all worker nodes: only workers and the daemons tolerate it."""
GPU_TAINT = "clusterra.io/gpu"
"""Additional taint of nodes with GPUs, so that no worker without GPUs runs there."""
GPU_LABEL = "nvidia.com/gpu.present"
"""Label of nodes with GPUs, on which NVIDIA's chart runs the device plugin."""
GPU_RESOURCE = "nvidia.com/gpu"
"""Resource that the device plugin advertises. A pod that requests it waits until the plugin has found the GPUs."""
CPU_LABEL = "karpenter.k8s.aws/instance-cpu"
NODE_CLASS = "slurmd"
NODE_POOL_LABEL = "karpenter.sh/nodepool"
"""Label of each NodeClaim and node: the NodePool that it was bought for."""

INSTANCE_FAMILIES: dict[Family, tuple[str, ...]] = {
    "compute": ("c7g", "c6g", "c7i", "c6i"),
    "general": ("m7g", "m6g", "m7i", "m6i"),
    "memory": ("r7g", "r6g", "r7i", "r6i"),
    "l4": ("g6",),
    "a10g": ("g5",),
    "a100": ("p4d",),
    "h100": ("p5",),
}
"""Instance families with 2, 4 and 8 GiB per vCPU, arm64 (`g`) and amd64 (`i`), and those with GPUs, amd64.

The family and the number of vCPUs determine everything else."""

KUBELET_CPU_MILLIS = 400
KUBELET_MEMORY_MIB = 1200
"""`kubeReserved` of the node class: for kubelet, the container runtime and the system."""
EVICTION_MEMORY_MIB = 100
"""kubelet's own threshold (`evictionHard`), which is not allocatable."""
HYPERVISOR_MEMORY = 0.075
"""Fraction of a machine's memory that its system does not see: Karpenter's default `VM_MEMORY_OVERHEAD_PERCENT`."""
DAEMONS_CPU_MILLIS = 200
DAEMONS_MEMORY_MIB = 256
"""Requests of all DaemonSets of a node together, such as CNI, kube-proxy and the storage drivers."""
GPU_DAEMONS_CPU_MILLIS = 100
GPU_DAEMONS_MEMORY_MIB = 256
"""Requests of the DaemonSets that only nodes with GPUs have, such as the device plugin and a metrics exporter."""
_MAX_PODS = 20
"""A worker and the daemons, so that the network reserves no more addresses."""

_MAX_FAMILY_CPUS = 1024
"""Limit of a NodePool. It catches mistakes; it is not a budget."""
_ROOT_VOLUME = "100Gi"


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Resources of a node or a part of it, in thousandths of a CPU and in MiB."""

    cpu_millis: int
    memory_mib: int


def allocatable(shape: Shape) -> NodeResources:
    """Returns what Karpenter and the scheduler may give to pods on a node of this shape."""
    visible_mib = int(shape.memory_mib * (1 - HYPERVISOR_MEMORY))
    return NodeResources(1000 * shape.vcpu - KUBELET_CPU_MILLIS, visible_mib - KUBELET_MEMORY_MIB - EVICTION_MEMORY_MIB)


def daemon_requests(shape: Shape) -> NodeResources:
    """Returns what the DaemonSets of a node may request together."""
    if shape.gpu_count:
        return NodeResources(DAEMONS_CPU_MILLIS + GPU_DAEMONS_CPU_MILLIS, DAEMONS_MEMORY_MIB + GPU_DAEMONS_MEMORY_MIB)
    return NodeResources(DAEMONS_CPU_MILLIS, DAEMONS_MEMORY_MIB)


def worker_resources(shape: Shape) -> NodeResources:
    """Returns the resources of the one worker of a node: all that the daemons leave."""
    node, daemons = allocatable(shape), daemon_requests(shape)
    return NodeResources(node.cpu_millis - daemons.cpu_millis, node.memory_mib - daemons.memory_mib)


def pool_name(family: Family) -> str:
    """Returns the name of a family's NodePool."""
    return f"slurmd-{family}"


def node_pool(family: Family, shapes: Iterable[Shape]) -> dict[str, Any]:
    """Returns the NodePool of a family, for the sizes of its shapes.

    Nodes are removed only when they are empty, and they never expire: Karpenter drains an expired node whatever runs on
    it. There is no `terminationGracePeriod` either, because it overrides `karpenter.sh/do-not-disrupt`.

    Nodes with GPUs have no startup taint: nothing would remove it, and NVIDIA's device plugin does not. Karpenter
    itself waits for the plugin: it treats no node as initialized that lacks a resource it was bought for.
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
                        _requirement("karpenter.k8s.aws/instance-family", INSTANCE_FAMILIES[family]),
                        _requirement(CPU_LABEL, map(str, sizes)),
                        _requirement("kubernetes.io/arch", ("amd64",) if gpus else ("arm64", "amd64")),
                        _requirement("kubernetes.io/os", ("linux",)),
                        _requirement("karpenter.sh/capacity-type", ("spot", "on-demand")),
                    ],
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                # A new worker within these three minutes finds the node and starts in a second.
                "consolidateAfter": "180s",
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "10%", "reasons": ["Drifted"]},
                ],
            },
            "limits": {"cpu": str(_MAX_FAMILY_CPUS)},
        },
    }


def node_class() -> dict[str, Any]:
    """Returns the EC2NodeClass of all families. The site sets the role, the discovery tags and the image version."""
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
            # One hop stays on the node itself, so no pod can reach the node's credentials.
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
                "maxPods": _MAX_PODS,
                "kubeReserved": {"cpu": f"{KUBELET_CPU_MILLIS}m", "memory": f"{KUBELET_MEMORY_MIB}Mi"},
                "evictionHard": {"memory.available": f"{EVICTION_MEMORY_MIB}Mi"},
            },
            "tags": {"clusterra.io/component": "worker"},
        },
    }


def _requirement(key: str, values: Iterable[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
