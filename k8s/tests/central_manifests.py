"""The manifests of k8s/central, as kustomize builds them."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_lab.kube.kubernetes import Kubernetes
from clusterra_lab.kube.programs.binaries import BinariesNotBuilt, ensure_binaries

CENTRAL = Path(__file__).parents[1] / "central"
SERVICES = ("gateway", "proxy", "scaler", "events")
NAMESPACE = "clusterra"

type Manifest = dict[str, Any]


async def kubectl_path() -> Path:
    """Any kubectl, which has kustomize built in. Skips the test where none can be had."""
    if found := shutil.which("kubectl"):
        return Path(found)
    try:
        return await ensure_binaries(names=("kubectl",)) / "kubectl"
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


def build(kubectl: Path, folder: Path) -> list[Manifest]:
    """All objects of a kustomization."""
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def overlay(folder: Path, *, resources: Sequence[Path], components: Sequence[Path] = (), **more: object) -> Path:
    """Writes a kustomization into an empty folder, as a site would."""
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(path.relative_to(folder, walk_up=True)) for path in resources],
        "components": [str(path.relative_to(folder, walk_up=True)) for path in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def pod_spec(manifest: Manifest) -> Manifest | None:
    """The pod's spec of a workload; None for any other object."""
    match manifest["kind"]:
        case "Deployment" | "StatefulSet" | "Job" | "DaemonSet":
            spec: Manifest = manifest["spec"]["template"]["spec"]
            return spec
        case "Pod":
            alone: Manifest = manifest["spec"]
            return alone
    return None


def pod_of(workload: Manifest) -> Manifest:
    """A pod as the workload's controller would create it."""
    metadata, template = workload["metadata"], workload["spec"]["template"]
    spec = dict(template["spec"])
    # A StatefulSet adds a volume for each claim template, and a Deployment the hash of its template to the labels.
    claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())]
    spec["volumes"] = [
        *spec.get("volumes", ()),
        *({"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims),
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-tried",
            "namespace": metadata["namespace"],
            "labels": {**template["metadata"]["labels"], "pod-template-hash": "tried"},
        },
        "spec": spec,
    }


def named(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """The only object of this kind and name."""
    (found,) = (each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def is_core(manifest: Manifest) -> bool:
    """Whether a plain API server knows the object's kind."""
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.startswith("gateway."))


async def apply(kubernetes: Kubernetes, manifests: Iterable[Manifest], *options: str) -> str:
    """Applies objects strictly: an unknown or repeated field is an error."""
    how = ("apply", "--server-side", "--validate=strict", "--filename=-", *options)
    return await kubernetes.kubectl(*how, input=yaml.safe_dump_all(manifests))
