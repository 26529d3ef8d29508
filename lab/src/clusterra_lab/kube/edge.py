"""A customer's Kubernetes on this machine: a control plane and one real node, with the manifests of k8s/edge."""

import base64
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterra_lab.kube.control_plane import ControlPlane, control_plane
from clusterra_lab.kube.node import RealNode, real_node
from clusterra_lab.kube.slurmd_image import NAME, TAG, ensure_slurmd_image
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.control_plane import SlurmCluster

MANIFESTS = Path(__file__).parents[4] / "k8s" / "edge"
NAMESPACE = "slurm"
AGENT = "edge-agent"


@dataclass(frozen=True)
class KubernetesEdge:
    """A control plane with one node, which has the worker image."""

    plane: ControlPlane
    node: RealNode

    @property
    def address(self) -> str:
        """The address of this machine as pods reach it."""
        return self.node.address

    @property
    def one_host(self) -> bool:
        """False: each pod has its own folders."""
        return False

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """Apply k8s/edge for workers of this cluster; returns the edge-agent's environment. Raises KubectlFailed."""
        folder = self.plane.directory / "site"
        folder.mkdir(exist_ok=True)
        (folder / "kustomization.yaml").write_text(json.dumps(_overlay(folder, slurm), indent=2))
        built = await self.plane.kubectl("kustomize", str(folder))
        apply = ("apply", "--server-side", "--validate=strict", "--filename=-")
        await self.plane.kubectl(*apply, input=f"{built}\n---\n{json.dumps(_site_objects(slurm))}")
        return {
            "CLUSTERRA_SUBSTRATE": "kubernetes",
            "CLUSTERRA_KUBERNETES_NAMESPACE": NAMESPACE,
            # The agent runs outside the node, with the same rights as its pod would have.
            "CLUSTERRA_KUBECONFIG": str(await self.plane.service_account(NAMESPACE, AGENT)),
        }


@asynccontextmanager
async def kubernetes_edge(directory: Path, *, progress: Progress = silent) -> AsyncIterator[KubernetesEdge]:
    """Run a KubernetesEdge until the block ends; nothing of it is left then.

    Needs root. Raises BinariesNotBuilt, NodeNotPossible, RootNotBuilt, ImageNotMade, KubectlFailed, ProcessDied,
    TimeoutError.
    """
    image = await ensure_slurmd_image(progress)
    async with (
        control_plane(directory, progress=progress) as plane,
        real_node(plane, images=[image], progress=progress) as node,
    ):
        yield KubernetesEdge(plane, node)


def _overlay(folder: Path, slurm: SlurmCluster) -> dict[str, Any]:
    """The kustomization of this site.

    It drops node selectors and Karpenter's objects and lowers the workers' requests, because one small node stands for
    all machines that Karpenter would buy. It scales the edge-agent's Deployment to zero: the lab runs the agent itself.
    """
    slurmd = [
        {"op": "remove", "path": "/spec/template/spec/nodeSelector"},
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources",
            "value": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        },
    ]
    no_agent = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
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
            }
        ],
        "images": [{"name": "clusterra-slurmd", "newName": NAME, "newTag": TAG}],
        "patches": [
            {"target": {"kind": "Deployment", "name": "slurmd-.*"}, "patch": json.dumps(slurmd)},
            {"target": {"kind": "Deployment", "name": AGENT}, "patch": json.dumps(no_agent)},
            {"target": {"kind": "PersistentVolumeClaim", "name": "shared"}, "patch": json.dumps(volume)},
            *({"target": {"kind": kind}, "patch": json.dumps(_deleted(kind))} for kind in ("NodePool", "EC2NodeClass")),
        ],
    }


def _deleted(kind: str) -> dict[str, Any]:
    return {"$patch": "delete", "kind": kind, "metadata": {"name": "any"}}


def shared_volume(folder: Path) -> dict[str, Any]:
    """A PersistentVolume for the workers' claim, on a folder of the node in place of the site's file system."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "shared"},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "claimRef": {"namespace": NAMESPACE, "name": "shared"},
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }


def _site_objects(slurm: SlurmCluster) -> dict[str, Any]:
    """The objects that a site adds to the manifests: its shared folder and its key."""
    key = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "slurm-key", "namespace": NAMESPACE},
        "data": {"slurm.key": base64.b64encode(slurm.slurm_key_file.read_bytes()).decode()},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [shared_volume(slurm.shared_dir), key]}
