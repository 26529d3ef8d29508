"""`python -m clusterra_edge_agent.kubernetes.manifests write|check`: the generated manifests of k8s/edge.

`write` generates the files from the catalogue. `check` names those that differ and exits with 1. Run both at the
root of the repository.
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
    worker_resources,
)

NAMESPACE = "slurm"
NAME_LABEL = "app.kubernetes.io/name"
SLURMD_PORT = 6818
_COMMAND = "python -m clusterra_edge_agent.kubernetes.manifests write"
_HEADER = f"# Generated from catalog/shapes.yaml. Do not edit; run `{_COMMAND}`.\n"

CAPABILITIES = ("CHOWN", "KILL", "SETGID", "SETUID")
"""Capabilities of slurmd, which is root; all others are dropped. It starts each job under its user's ids (SETUID,
SETGID) with a script that it gives to that user (CHOWN), and signals what it started (KILL)."""
SLURMD_MEMORY_MIB = 128
"""Part of a pod's memory that jobs must not get: for slurmd and its slurmstepd processes."""
_STARTUP_SECONDS = 300
_GRACE_SECONDS = 110
"""Fits within the two minutes between a spot instance's interruption notice and its end. The preStop hook takes 100 s
of it."""


def files(shapes: Catalogue) -> dict[str, str]:
    """Returns the content of each file by its path: a folder per family, besides what all families share.

    Raises CatalogueInvalid for a shape that promises more than its node has.
    """
    documents = {f"{shape.family}/slurmd-{shape.name}.yaml": deployment(shape) for shape in shapes.shapes}
    for family in get_args(Family):
        if any(shape.family == family for shape in shapes.shapes):
            documents[f"{family}/nodepool.yaml"] = node_pool(family, shapes.shapes)
    documents["ec2nodeclass.yaml"] = node_class()
    documents["kustomization.yaml"] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(documents),
    }
    return {name: _HEADER + yaml.safe_dump(document, sort_keys=False) for name, document in documents.items()}


def deployment(shape: Shape) -> dict[str, Any]:
    """Returns the Deployment of a shape's workers, without workers until the agent raises its replicas.

    There is only a startup probe and no readiness probe. A ReplicaSet deletes pods that are not ready before all
    others, so a probe that fails for a moment could cost a busy worker.
    """
    selector = {NAME_LABEL: "slurmd", SHAPE_LABEL: shape.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"slurmd-{shape.name}", "namespace": NAMESPACE, "labels": dict(selector)},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": dict(selector)},
            # Never while workers run: the policy `slurmd-workers` lets the template change only when there is no pod.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "revisionHistoryLimit": 1,
            "template": {
                "metadata": {
                    "labels": {**selector, FAMILY_LABEL: shape.family},
                    # Only the agent removes workers.
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
            # A node that does not respond for five minutes may still run its jobs, so none is evicted for that.
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_slurmd(shape)],
        "volumes": [
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
            {"name": "slurm-key", "secret": {"secretName": "slurm-key", "defaultMode": 0o400}},
            *({"name": name, "emptyDir": {"sizeLimit": limit}} for name, (_, limit) in _SCRATCH.items()),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shape.worker.memory_mib // 2}Mi"}},
        ],
    }


SCRATCH_GIB = 56
"""What the jobs of a worker may hold in /tmp together. `worker-limits` divides it by CPUs, and kills who has more."""
EPHEMERAL_STORAGE_GIB = 72
"""All that a worker may hold on its node's disk of 100 GiB; the rest is the system's and the images'.

kubelet evicts a worker that exceeds a limit, with all its jobs. So each limit is far above what `worker-limits` allows:
it looks every 20 s, and a job can write some GiB in that time."""
_SCRATCH = {
    "spool": ("/var/spool/slurmd", "4Gi"),
    "log": ("/var/log/slurm", "1Gi"),
    "run": ("/run", "256Mi"),
    "tmp": ("/tmp", "66Gi"),  # noqa: S108 - the pod's own
}
"""Volumes on the node's disk: path and size limit."""


def _slurmd(shape: Shape) -> dict[str, Any]:
    worker = shape.worker
    environment = {
        "CLUSTERRA_SHAPE": shape.name,
        "CLUSTERRA_FAMILY": shape.family,
        "CLUSTERRA_CPUS": str(worker.cpus),
        "CLUSTERRA_MEMORY_MIB": str(worker.memory_mib),
        "CLUSTERRA_WEIGHT": str(worker.weight),
        "CLUSTERRA_SCRATCH_MIB": str(SCRATCH_GIB * 1024),
    }
    if shape.gpu_count:
        environment |= {
            "CLUSTERRA_GPUS": str(shape.gpu_count),
            "CLUSTERRA_GPU_MODEL": shape.gpu_model,
            # What NVIDIA's runtime adds to the container besides the devices: CUDA's libraries and nvidia-smi.
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
        # Lets running jobs finish, whoever deletes the pod. An idle worker passes at once.
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
            *({"name": name, "mountPath": path} for name, (path, _) in _SCRATCH.items()),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own
        ],
    }


def _resources(shape: Shape) -> dict[str, Any]:
    """Returns requests and limits. CPU has no limit: the node has no other worker, and requests protect the daemons."""
    resources = worker_resources(shape)
    max_memory_mib = resources.memory_mib - SLURMD_MEMORY_MIB
    if shape.worker.memory_mib > max_memory_mib:
        raise CatalogueInvalid(
            f"{shape.name}: real_memory_mib must be at most {max_memory_mib}, because a node has no more"
        )
    limits = {"memory": f"{resources.memory_mib}Mi", "ephemeral-storage": f"{EPHEMERAL_STORAGE_GIB}Gi"}
    if shape.gpu_count:
        limits[GPU_RESOURCE] = str(shape.gpu_count)
    return {"requests": {"cpu": f"{resources.cpu_millis}m", **limits}, "limits": limits}


def write(wanted: dict[str, str], folder: Path) -> None:
    """Makes `folder` contain exactly these manifests. Raises OSError."""
    for name in _present(folder) - wanted.keys():
        (folder / name).unlink()
    for name, content in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for subfolder in folder.iterdir():
        if subfolder.is_dir() and not any(subfolder.iterdir()):
            subfolder.rmdir()


def differing(wanted: dict[str, str], folder: Path) -> Iterator[Path]:
    """Yields the files that are missing, differ or are obsolete. Raises OSError."""
    for name in sorted(wanted.keys() | _present(folder)):
        path = folder / name
        if not path.exists() or path.read_text() != wanted.get(name):
            yield path


def _present(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for depth in ("*.yaml", "*/*.yaml") for path in folder.glob(depth)}


def main() -> int:
    """Runs the command. Exit code 1: files differ; 2: the catalogue cannot be read."""
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
        sys.stderr.write(
            f"these files differ from {arguments.catalogue}: {', '.join(map(str, wrong))}\nrun `{_COMMAND}`\n"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
