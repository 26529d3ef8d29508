"""The Kubernetes control plane that the tests of a file share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.programs.binaries import BinariesNotBuilt

RIGHTS = Path(__file__).parents[3] / "k8s" / "edge" / "base" / "agent-rights.yaml"


@asynccontextmanager
async def plane_or_skip(folders: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """Yields a new control plane until the block ends. Skips when its binaries, or those of the block, are missing."""
    try:
        async with control_plane(folders.mktemp("kubernetes")) as plane:
            yield plane
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


async def agent_environment(plane: ControlPlane) -> dict[str, str]:
    """Returns the settings of an agent whose workers are pods here. Grants its permissions in the namespace."""
    await plane.kubectl("apply", f"--filename={RIGHTS}")
    return {
        "CLUSTERRA_SUBSTRATE": "kubernetes",
        "CLUSTERRA_KUBECONFIG": str(await plane.service_account("slurm", "edge-agent")),
    }
