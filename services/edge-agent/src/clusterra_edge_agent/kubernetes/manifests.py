"""`python -m clusterra_edge_agent.kubernetes.manifests write|check`: what of k8s/edge follows from the shapes.

`write` makes the files, `check` names those that differ and exits with 1. Both run at the root of the repository.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from clusterra_contracts.shapes import Catalogue, Family, Shape
from clusterra_runtime import catalogue
from clusterra_runtime.catalogue import CatalogueInvalid

from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.machines.karpenter import (
    CPU_LABEL,
    FAMILY_LABEL,
    GPU_RESOURCE,
    GPU_TAINT,
    WORKER_TAINT,
    node_class,
    node_pool,
    worker_room,
)

NAMESPACE = "slurm"
NAME_LABEL = "app.kubernetes.io/name"
SLURMD_PORT = 6818
_COMMAND = "python -m clusterra_edge_agent.kubernetes.manifests write"
_HEADER = f"# Made from catalog/shapes.yaml: do not edit, run `{_COMMAND}`.\n"

CAPABILITIES = ("CHOWN", "KILL", "SETGID", "SETUID")
"""Of a slurmd that is root, all others dropped: it starts each job under its user's ids (SETUID, SETGID) with a script
that it gives to that user (CHOWN), and signals what it started (KILL)."""
SLURMD_MEMORY_MIB = 128
"""Of a pod's memory: for slurmd and its slurmstepd, which jobs must not get."""
_STARTUP_SECONDS = 300
_GRACE_SECONDS = 110
"""Within the two minutes between the notice and the end of a spot instance; of it, the preStop hook takes 100."""


def files(shapes: Catalogue) -> dict[str, str]:
    """File name -> content. Raises CatalogueInvalid for a shape that promises more than its node has."""
    documents = {f"slurmd-{shape.name}.yaml": deployment(shape) for shape in shapes.shapes}
    for family in get_args(Family):
        if any(shape.family == family for shape in shapes.shapes):
            documents[f"nodepool-{family}.yaml"] = node_pool(family, shapes.shapes)
    documents["ec2nodeclass.yaml"] = node_class()
    documents["kustomization.yaml"] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(documents),
    }
    return {name: _HEADER + yaml.safe_dump(document, sort_keys=False) for name, document in documents.items()}


def deployment(shape: Shape) -> dict[str, Any]:
    """The workers of a shape: none of them until the agent raises the replicas.

    There is no readiness probe, only a startup probe: a ReplicaSet deletes pods that are not ready before all others,
    so that a probe which fails for a moment later on could cost a busy worker.
    """
    selector = {NAME_LABEL: "slurmd", SHAPE_LABEL: shape.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"slurmd-{shape.name}", "namespace": NAMESPACE, "labels": dict(selector)},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": dict(selector)},
            # Never at work: the policy `slurmd-workers` lets the template change only while there is no pod.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "revisionHistoryLimit": 1,
            "template": {
                "metadata": {
                    "labels": {**selector, FAMILY_LABEL: shape.family},
                    # Workers are retired by the agent alone.
                    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                },
                "spec": _pod(shape),
            },
        },
    }


def _pod(shape: Shape) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "clusterra-worker",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "nodeSelector": {
            FAMILY_LABEL: shape.family,
            CPU_LABEL: str(shape.vcpu),
            "kubernetes.io/arch": shape.worker.architecture,
        },
        "tolerations": [
            {"key": WORKER_TAINT, "operator": "Exists", "effect": "NoSchedule"},
            *([{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}] if shape.gpu_count else []),
            # A node that does not answer for five minutes may still run its jobs: none is evicted for that.
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_slurmd(shape)],
        "volumes": [
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
            {"name": "slurm-key", "secret": {"secretName": "slurm-key", "defaultMode": 0o400}},
            # Without a size limit: kubelet would evict a worker whose jobs exceed it.
            *({"name": name, "emptyDir": {}} for name in _SCRATCH),
        ],
    }


_SCRATCH = {"spool": "/var/spool/slurmd", "log": "/var/log/slurm", "run": "/run", "tmp": "/tmp"}  # noqa: S108 - in the pod, and its own


def _slurmd(shape: Shape) -> dict[str, Any]:
    worker = shape.worker
    environment = {
        "CLUSTERRA_SHAPE": shape.name,
        "CLUSTERRA_FAMILY": shape.family,
        "CLUSTERRA_CPUS": str(worker.cpus),
        "CLUSTERRA_MEMORY_MIB": str(worker.memory_mib),
        "CLUSTERRA_WEIGHT": str(worker.weight),
    }
    if shape.gpu_count:
        environment |= {
            "CLUSTERRA_GPUS": str(shape.gpu_count),
            "CLUSTERRA_GPU_MODEL": shape.gpu_model,
            # What NVIDIA's runtime puts into the container besides the devices: CUDA's libraries and nvidia-smi.
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        }
    return {
        "name": "slurmd",
        "image": "clusterra-slurmd",
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *({"name": name, "value": value} for name, value in environment.items()),
        ],
        "envFrom": [{"configMapRef": {"name": "slurmd"}}],
        "ports": [{"name": "slurmd", "containerPort": SLURMD_PORT}],
        "startupProbe": {
            "tcpSocket": {"port": "slurmd"},
            "periodSeconds": 1,
            "failureThreshold": _STARTUP_SECONDS,
        },
        # Lets what runs come to its end, whoever has the pod deleted; an idle worker passes at once.
        "lifecycle": {"preStop": {"exec": {"command": ["/usr/lib/clusterra/slurmd-pre-stop"]}}},
        "resources": _resources(shape),
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        "volumeMounts": [
            {"name": "shared", "mountPath": "/mnt/efs"},
            {"name": "slurm-key", "mountPath": "/etc/slurm", "readOnly": True},
            *({"name": name, "mountPath": path} for name, path in _SCRATCH.items()),
        ],
    }


def _resources(shape: Shape) -> dict[str, Any]:
    """No limit of CPU: the node has no other worker, and its daemons' share is guarded by what they request."""
    room = worker_room(shape)
    most = room.memory_mib - SLURMD_MEMORY_MIB
    if shape.worker.memory_mib > most:
        raise CatalogueInvalid(f"{shape.name}: real_memory_mib may be {most} at most, for a node has no more")
    limits = {"memory": f"{room.memory_mib}Mi"}
    if shape.gpu_count:
        limits[GPU_RESOURCE] = str(shape.gpu_count)
    return {"requests": {"cpu": f"{room.cpu_millis}m", **limits}, "limits": limits}


def write(wanted: dict[str, str], folder: Path) -> None:
    """Make `folder` hold these files and no other manifests. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, content in wanted.items():
        (folder / name).write_text(content)


def differing(wanted: dict[str, str], folder: Path) -> Iterator[Path]:
    """Files that are missing, not as they should be, or there though they should not. Raises OSError."""
    for name in sorted(wanted.keys() | {path.name for path in folder.glob("*.yaml")}):
        path = folder / name
        if not path.exists() or path.read_text() != wanted.get(name):
            yield path


def main() -> int:
    """The command; the exit code is 1 when files differ, 2 when the catalogue cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m clusterra_edge_agent.kubernetes.manifests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("write", "check"))
    parser.add_argument("--catalogue", type=Path, default=Path("catalog/shapes.yaml"))
    parser.add_argument("--folder", type=Path, default=Path("k8s/edge/generated"))
    arguments = parser.parse_args()
    try:
        wanted = files(catalogue.load(arguments.catalogue))
    except CatalogueInvalid as error:
        parser.error(str(error))
    if arguments.action == "write":
        write(wanted, arguments.folder)
        return 0
    wrong = list(differing(wanted, arguments.folder))
    if wrong:
        sys.stderr.write(f"not as {arguments.catalogue} has it: {', '.join(map(str, wrong))}\nrun `{_COMMAND}`\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
