"""A customer's Kubernetes on this machine: one real node, and on it what k8s/edge has, as a site of its own."""

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
    """An API server with one node, which has the image of the workers."""

    plane: ControlPlane
    node: RealNode

    @property
    def address(self) -> str:
        """Of this machine, as pods reach it."""
        return self.node.address

    @property
    def one_host(self) -> bool:
        """Each pod has folders of its own."""
        return False

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """Apply k8s/edge for workers of this cluster; what its edge-agent must be told. Raises KubectlFailed."""
        folder = self.plane.directory / "site"
        folder.mkdir(exist_ok=True)
        (folder / "kustomization.yaml").write_text(json.dumps(_overlay(folder, slurm), indent=2))
        built = await self.plane.kubectl("kustomize", str(folder))
        apply = ("apply", "--server-side", "--validate=strict", "--filename=-")
        await self.plane.kubectl(*apply, input=f"{built}\n---\n{json.dumps(_own(slurm))}")
        return {
            "CLUSTERRA_SUBSTRATE": "kubernetes",
            "CLUSTERRA_KUBERNETES_NAMESPACE": NAMESPACE,
            # The agent runs beside the node, with no more rights than its pod would have.
            "CLUSTERRA_KUBECONFIG": str(await self.plane.service_account(NAMESPACE, AGENT)),
        }


@asynccontextmanager
async def kubernetes_edge(directory: Path, *, progress: Progress = silent) -> AsyncIterator[KubernetesEdge]:
    """Start it; nothing of it is left when the block ends.

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
    """What a site says of itself, and that one small node stands for all machines that Karpenter would buy."""
    slurmd = [
        {"op": "remove", "path": "/spec/template/spec/nodeSelector"},
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/resources",
            "value": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        },
    ]
    elsewhere = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
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
            {"target": {"kind": "Deployment", "name": AGENT}, "patch": json.dumps(elsewhere)},
            {"target": {"kind": "PersistentVolumeClaim", "name": "shared"}, "patch": json.dumps(volume)},
            *({"target": {"kind": kind}, "patch": json.dumps(_deleted(kind))} for kind in ("NodePool", "EC2NodeClass")),
        ],
    }


def _deleted(kind: str) -> dict[str, Any]:
    return {"$patch": "delete", "kind": kind, "metadata": {"name": "any"}}


def shared_volume(folder: Path) -> dict[str, Any]:
    """What the workers' claim is bound to, where a folder of the node stands for the site's file system."""
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


def _own(slurm: SlurmCluster) -> dict[str, Any]:
    """What a site brings: its shared folder and its key."""
    key = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "slurm-key", "namespace": NAMESPACE},
        "data": {"slurm.key": base64.b64encode(slurm.slurm_key_file.read_bytes()).decode()},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [shared_volume(slurm.shared_dir), key]}
