"""CustomResourceDefinitions of other projects, from their releases, for tests on a real API server."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from clusterra_lab.kube.kubernetes import KubectlFailed, Kubernetes
from clusterra_lab.machine.process import until

FOLDER = Path(
    os.environ.get("CLUSTERRA_CRDS", Path(__file__).parents[3].parent / "shared" / "data" / "crds"),
)
"""Contains a folder for each project."""


def definitions(project: str, names: str = "*") -> list[Path]:
    """Returns the files of a project. Skips the test when there are none."""
    found = sorted((FOLDER / project).glob(f"{names}.yaml"))
    if not found:
        pytest.skip(f"no CustomResourceDefinitions in {FOLDER / project}: name the folder above it in CLUSTERRA_CRDS")
    return found


async def define(kubernetes: Kubernetes, files: Iterable[Path]) -> None:
    """Creates the definitions, and waits until objects of them can be created."""
    named = [f"--filename={path}" for path in files]
    await kubernetes.kubectl("create", *named)

    async def established() -> bool:
        try:
            await kubernetes.kubectl("wait", "--for=condition=Established", *named, "--timeout=60s")
        except KubectlFailed as error:
            # kubectl fails instead of waiting while a definition has no status at all.
            if "accessor error" in str(error):
                return False
            raise
        return True

    await until(established, seconds=60, what="the definitions to be in force", every=0.1)
