"""Creates machines as Karpenter and kubelet do, on a real API server with Karpenter's definitions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterra_lab.kube.kubernetes import Kubernetes

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def provider_id(name: str) -> str:
    return f"aws:///eu-west-1a/i-{name}"


def claim_labels(family: str) -> dict[str, str]:
    """Returns the labels that Karpenter puts on a launched NodeClaim, including some that the agent does not read."""
    return {
        "karpenter.sh/nodepool": f"slurmd-{family}",
        "clusterra.io/family": family,
        "karpenter.k8s.aws/instance-cpu": "2",
        "karpenter.k8s.aws/instance-memory": "8192",
        INSTANCE_TYPE: "m7g.large",
        "karpenter.sh/capacity-type": "spot",
        "topology.kubernetes.io/zone": "eu-west-1a",
    }


@dataclass(frozen=True)
class KubeMachines:
    """Creates and changes machines as an administrator."""

    kubernetes: Kubernetes

    async def claim(
        self, name: str, family: str = "general", owners: Sequence[dict[str, str]] = (), **status: Any
    ) -> None:
        """Creates a NodeClaim of a family's NodePool."""
        manifest = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": claim_labels(family), "ownerReferences": list(owners)},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "slurmd"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            },
        }
        await self.kubernetes.kubectl("create", "--filename=-", input=json.dumps(manifest))
        if status:
            await self.set_status("nodeclaim", name, **status)

    async def pool(self, name: str) -> dict[str, str]:
        """Creates a NodePool. Returns the reference with which a NodeClaim names it as its owner."""
        node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "slurmd"}
        manifest = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"nodeClassRef": node_class, "requirements": []}}},
        }
        create = ("create", "--filename=-", "--output=jsonpath={.metadata.uid}")
        uid = await self.kubernetes.kubectl(*create, input=json.dumps(manifest))
        return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": name, "uid": uid}

    async def node(self, name: str, family: str = "general") -> None:
        """Creates a node that is not ready yet. Without a family it is not for workers."""
        labels = {"clusterra.io/family": family} if family else {}
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, INSTANCE_TYPE: "m7g.large"}},
            "spec": {"providerID": provider_id(name)},
        }
        await self.kubernetes.kubectl("create", "--filename=-", input=json.dumps(manifest))

    async def set_status(self, kind: str, name: str, **status: Any) -> None:
        patch = json.dumps({"status": status})
        await self.kubernetes.kubectl("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={patch}")

    async def delete_all(self) -> None:
        """Deletes the NodeClaims, and the nodes that `node` created."""
        await self.kubernetes.kubectl("delete", "nodeclaims", "--all")
        await self.kubernetes.kubectl("delete", "nodes", f"--selector={INSTANCE_TYPE}=m7g.large")

    async def claims(self) -> set[str]:
        listed = await self.kubernetes.kubectl("get", "nodeclaims", "--output=jsonpath={.items[*].metadata.name}")
        return set(listed.split())


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    """Returns a condition of a NodeClaim that changed at the beginning of 2026."""
    return {
        "type": type_,
        "status": status,
        "reason": reason or type_,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


LAUNCHED = condition("Launched")
INITIALIZED = condition("Initialized")
NO_CAPACITY = condition("Launched", "False", "InsufficientCapacity", "no m7g.large in eu-west-1a")
