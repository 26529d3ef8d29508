"""CustomResourceDefinitions of other projects, from their releases, for tests on a real API server."""

import os
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import pytest
from clusterra_lab.kube.definitions import PROJECTS, DefinitionsNotTaken, ensure_definitions
from clusterra_lab.kube.kubernetes import KubectlFailed, Kubernetes
from clusterra_lab.machine.process import until

GIVEN = Path(
    os.environ.get("CLUSTERRA_CRDS", Path(__file__).parents[3].parent / "shared" / "data" / "crds"),
)
"""Contains a folder for each project whose definitions no Go module provides."""

_defined: defaultdict[Path, set[Path]] = defaultdict(set)
"""The definitions of each Kubernetes, by its kubeconfig."""


async def definitions(project: str, names: str = "*") -> list[Path]:
    """Returns the files of a project. Skips the test when there are none."""
    try:
        folder = await ensure_definitions(project) if project in PROJECTS else GIVEN / project
    except DefinitionsNotTaken as error:
        pytest.skip(str(error))
    if not (found := sorted(folder.glob(f"{names}.yaml"))):
        pytest.skip(f"no CustomResourceDefinitions in {folder}: name the folder above it in CLUSTERRA_CRDS")
    return found


async def define(kubernetes: Kubernetes, files: Collection[Path]) -> None:
    """Creates the definitions that are not there yet, and waits until objects of them can be created."""
    known = _defined[kubernetes.kubeconfig]
    named = [f"--filename={path}" for path in files if path not in known]
    if not named:
        return
    await kubernetes.kubectl("create", *named)
    known |= set(files)

    async def established() -> bool:
        try:
            await kubernetes.kubectl("wait", "--for=condition=Established", *named, "--timeout=60s")
        except KubectlFailed as error:
            # kubectl fails instead of waiting while a definition has no status at all.
            if "accessor error" in str(error):
                return False
            raise
        return True

    await until(established, seconds=240, what="the definitions to be in force", every=0.1)


async def undefine(kubernetes: Kubernetes, files: Collection[Path]) -> None:
    """Deletes the definitions and all objects of them."""
    known = _defined[kubernetes.kubeconfig]
    if named := [f"--filename={path}" for path in files if path in known]:
        await kubernetes.kubectl("delete", *named, "--timeout=60s")
        known -= set(files)
