"""A customer's Kubernetes on this machine: a control plane and one real node, with the manifests of k8s/edge."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterra_lab.kube.components import LOOPBACK
from clusterra_lab.kube.control_plane import ControlPlane, control_plane
from clusterra_lab.kube.node import RealNode, real_node
from clusterra_lab.kube.node_number import reserved_node_number
from clusterra_lab.kube.objects import host_volume, secret
from clusterra_lab.kube.slurmd_image import NAME, TAG, ensure_slurmd_image
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.control_plane import SlurmCluster

MANIFESTS = Path(__file__).parents[4] / "k8s" / "edge"
NAMESPACE = "slurm"
AGENT = "edge-agent"


@dataclass(frozen=True)
class AgentPod:
    """What the edge-agent's own Deployment needs of a site."""

    image: str
    """Name and tag of an image that the node has."""
    settings: Mapping[str, str]
    """Variables of the agent that the site sets."""
    credentials: Path
    """The `.creds` file for NATS."""
    key: Path
    """The file of the agent key for HTTP."""
    state: Path
    """The folder of this machine that holds the agent's volume; the agent's uid owns it."""


@dataclass(frozen=True)
class KubernetesEdge:
    """A control plane with one node, which has the worker image."""

    plane: ControlPlane
    node: RealNode
    services: str
    """The network of the Services' cluster addresses."""

    @property
    def address(self) -> str:
        """The address of this machine as pods reach it."""
        return self.node.machine_address

    @property
    def one_host(self) -> bool:
        """False: each pod has its own folders."""
        return False

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """Apply k8s/edge for workers of this cluster; returns the edge-agent's environment. Raises KubectlFailed."""
        await self._apply(slurm, None)
        return {
            "CLUSTERRA_SUBSTRATE": "kubernetes",
            "CLUSTERRA_KUBERNETES_NAMESPACE": NAMESPACE,
            # The agent runs outside the node, with the same rights as its pod would have.
            "CLUSTERRA_KUBECONFIG": str(await self.plane.service_account(NAMESPACE, AGENT)),
        }

    async def deploy_with_agent(self, slurm: SlurmCluster, agent: AgentPod) -> None:
        """Apply k8s/edge for workers of this cluster, with the agent in its own pod. Raises KubectlFailed."""
        await self._apply(slurm, agent)

    async def _apply(self, slurm: SlurmCluster, agent: AgentPod | None) -> None:
        folder = self.plane.directory / "site"
        folder.mkdir(exist_ok=True)
        (folder / "kustomization.yaml").write_text(json.dumps(_overlay(folder, slurm, agent), indent=2))
        built = await self.plane.kubectl("kustomize", str(folder))
        apply = ("apply", "--server-side", "--validate=strict", "--filename=-")
        objects = _list([*_site_objects(slurm), *(_agent_objects(agent) if agent else ())])
        await self.plane.kubectl(*apply, input=f"{built}\n---\n{json.dumps(objects)}")


@asynccontextmanager
async def kubernetes_edge(
    directory: Path, *, images: Sequence[Path] = (), own_network: bool = False, progress: Progress = silent
) -> AsyncIterator[KubernetesEdge]:
    """Run a KubernetesEdge until the block ends; nothing of it is left then.

    The node has further `images`, and with `own_network` Services and names (`node_network`). Needs root. Raises
    BinariesNotBuilt, NodeNotPossible, RootNotBuilt, ImageNotMade, KubectlFailed, ProcessDied, TimeoutError.
    """
    image = await ensure_slurmd_image(progress)
    async with (
        reserved_node_number(own_network=own_network) as number,
        control_plane(directory, site=number.site if own_network else LOOPBACK, progress=progress) as plane,
        real_node(plane, number=number, images=[image, *images], progress=progress) as node,
    ):
        yield KubernetesEdge(plane, node, number.site.services if own_network else LOOPBACK.services)


def _overlay(folder: Path, slurm: SlurmCluster, agent: AgentPod | None) -> dict[str, Any]:
    """The kustomization of this site.

    It drops node selectors and Karpenter's objects and lowers the workers' requests, because one small node stands for
    all machines that Karpenter would buy. Without an AgentPod it scales the edge-agent's Deployment to zero.
    """
    slurmd = [
        {"op": "remove", "path": "/spec/template/spec/nodeSelector"},
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources",
            "value": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        },
    ]
    replicas = [{"op": "replace", "path": "/spec/replicas", "value": 1 if agent else 0}]
    settings = {"name": AGENT, "namespace": NAMESPACE, "behavior": "merge"}
    image, _, tag = agent.image.partition(":") if agent else ("", "", "")
    volume = [{"op": "add", "path": "/spec/volumeName", "value": "shared"}]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder.resolve())],
        "configMapGenerator": [
            {
                "name": "slurmd",
                "namespace": NAMESPACE,
                "behavior": "merge",
                "literals": [
                    f"CLUSTERRA_SLURMD_CONF_SERVER={slurm.slurmctld_address}:{slurm.slurmctld_port}",
                    "CLUSTERRA_CONFIG_OVERRIDES=yes",
                ],
            },
            *([{**settings, "literals": [f"{k}={v}" for k, v in agent.settings.items()]}] if agent else []),
        ],
        "images": [
            {"name": "clusterra-slurmd", "newName": NAME, "newTag": TAG},
            *([{"name": "clusterra-edge-agent", "newName": image, "newTag": tag}] if agent else []),
        ],
        "patches": [
            {"target": {"kind": "Deployment", "name": "slurmd-.*"}, "patch": json.dumps(slurmd)},
            {"target": {"kind": "Deployment", "name": AGENT}, "patch": json.dumps(replicas)},
            {"target": {"kind": "PersistentVolumeClaim", "name": "shared"}, "patch": json.dumps(volume)},
            *({"target": {"kind": kind}, "patch": json.dumps(_deleted(kind))} for kind in ("NodePool", "EC2NodeClass")),
        ],
    }


def _deleted(kind: str) -> dict[str, Any]:
    return {"$patch": "delete", "kind": kind, "metadata": {"name": "any"}}


def shared_volume(folder: Path) -> dict[str, Any]:
    """A PersistentVolume for the workers' claim, on a folder of the node in place of the site's file system."""
    return host_volume(NAMESPACE, "shared", folder, "ReadWriteMany", storage_class="shared")


def _site_objects(slurm: SlurmCluster) -> list[dict[str, Any]]:
    """The objects that a site adds to the manifests: its shared folder and its key."""
    return [shared_volume(slurm.shared_dir), secret(NAMESPACE, "slurm-key", {"slurm.key": slurm.slurm_key_file})]


def _agent_objects(agent: AgentPod) -> list[dict[str, Any]]:
    """The objects that a site adds for the agent's pod: its credentials, and the volume of its state."""
    return [
        host_volume(NAMESPACE, AGENT, agent.state, "ReadWriteOnce"),
        secret(NAMESPACE, "edge-agent-nats", {"agent.creds": agent.credentials}),
        secret(NAMESPACE, "edge-agent-key", {"agent.key": agent.key}),
    ]


def _list(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": objects}
