"""The Kubernetes control plane that all tests of a process share, and namespaces of it.

A plugin of pytest: the conftest.py of each folder whose tests use these fixtures registers it. A test keeps to
namespaces of its own, restores what it changes cluster-wide, and leaves the API server running. A file whose tests
cannot do so has a fixture `plane` of its own (`plane_or_skip`).
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_lab.kube.fake_nodes import kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.programs.binaries import BinariesNotBuilt

RIGHTS = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "agent-rights.yaml"
_WITH_PODS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
_CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")
_NAMES = count()


@asynccontextmanager
async def plane_or_skip(folders: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """Yields a new control plane until the block ends. Skips when its binaries, or those of the block, are missing."""
    try:
        async with control_plane(folders.mktemp("kubernetes")) as plane:
            yield plane
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """The control plane of this process, at first without a node."""
    async with plane_or_skip(tmp_path_factory) as plane:
        yield plane


@pytest.fixture(scope="session")
async def fake_nodes(plane: ControlPlane) -> AsyncIterator[None]:
    """Two nodes of the shared control plane from now on: a big one, and a little one with three CPUs."""
    async with (
        kwok_nodes(plane, 1, labels={"size": "big"}, prefix="big"),
        kwok_nodes(plane, 1, cpus=3, labels={"size": "little"}, prefix="little"),
    ):
        yield


@pytest.fixture
async def namespace(plane: ControlPlane) -> AsyncIterator[str]:
    """A new namespace. What a test leaves in it is deleted, because the next test may need the capacity."""
    name = await new_namespace(plane)
    yield name
    await plane.kubectl("delete", "namespace", name, "--wait=false")


async def new_namespace(plane: ControlPlane) -> str:
    """Creates a namespace, and waits for its ServiceAccount: until then ReplicaSets make no pods, and try ever later.

    Returns its name, which no other test of this process uses.
    """
    name = f"test-{next(_NAMES)}"
    await plane.kubectl("create", "namespace", name)
    await plane.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={name}", "--timeout=120s")
    return name


def unscheduled(manifests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Manifests whose pods no scheduler takes. They outlive their tests, and would take the room of others."""
    changed = deepcopy(list(manifests))
    for manifest in changed:
        if manifest["kind"] in _WITH_PODS:
            manifest["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    return changed


def agent_rights(namespace: str) -> list[dict[str, Any]]:
    """Returns the objects of RIGHTS for an agent in a namespace. Cluster-wide ones are named after the namespace."""
    manifests: list[dict[str, Any]] = list(
        yaml.safe_load_all(RIGHTS.read_text().replace("namespace: slurm", f"namespace: {namespace}"))
    )
    for manifest in manifests:
        if manifest["kind"] in _CLUSTER_WIDE:
            manifest["metadata"]["name"] += f"-{namespace}"
        if manifest["kind"] == "ClusterRoleBinding":
            manifest["roleRef"]["name"] += f"-{namespace}"
    return manifests


async def agent_account(plane: ControlPlane, namespace: str) -> Path:
    """Grants an agent its permissions in a namespace. Returns its kubeconfig."""
    rights = yaml.safe_dump_all(agent_rights(namespace))
    await plane.kubectl("apply", "--filename=-", input=rights)
    return await plane.service_account(namespace, "edge-agent")


async def account_without_rights(plane: ControlPlane, namespace: str) -> Path:
    """Creates the ServiceAccount `nobody` in a namespace. Returns its kubeconfig."""
    await plane.kubectl("create", "serviceaccount", "nobody", f"--namespace={namespace}")
    return await plane.service_account(namespace, "nobody")


async def agent_environment(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Returns the settings of an agent whose workers are pods of a namespace. Grants its permissions there."""
    return {
        "CLUSTERRA_SUBSTRATE": "kubernetes",
        "CLUSTERRA_KUBERNETES_NAMESPACE": namespace,
        "CLUSTERRA_KUBECONFIG": str(await agent_account(plane, namespace)),
    }
