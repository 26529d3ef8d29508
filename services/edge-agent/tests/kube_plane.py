"""The control plane of Kubernetes that a file's tests share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusterra_lab.kube.binaries import BinariesNotBuilt
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane

RIGHTS = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "agent-rights.yaml"


@asynccontextmanager
async def plane_or_skip(folders: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A new one until the block ends. Skips when its programs, or those that the block wants, cannot be had."""
    try:
        async with control_plane(folders.mktemp("kubernetes")) as plane:
            yield plane
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


async def agent_environment(plane: ControlPlane) -> dict[str, str]:
    """What tells an agent that its workers are pods here; it has its rights in the namespace, which is there."""
    await plane.kubectl("apply", f"--filename={RIGHTS}")
    return {
        "CLUSTERRA_SUBSTRATE": "kubernetes",
        "CLUSTERRA_KUBECONFIG": str(await plane.service_account("slurm", "edge-agent")),
    }
