"""Provides a Kubernetes: from CLUSTERRA_KUBECONFIG, else a control plane of processes, else one in a container."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from clusterra_lab.kube.access import KubectlFailed, Kubernetes
from clusterra_lab.kube.container import kube_container
from clusterra_lab.kube.control_plane import ControlPlane, control_plane
from clusterra_lab.kube.programs.binaries import CONTROL_PLANE, can_have_binaries, ensure_binaries
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress, silent

__all__ = ["GIVEN", "ControlPlane", "KubectlFailed", "Kubernetes", "NoKubeconfig", "control_plane", "kubernetes"]

GIVEN = "CLUSTERRA_KUBECONFIG"
"""Environment variable with an administrator's kubeconfig of a running Kubernetes."""


class NoKubeconfig(LabProblem):
    """CLUSTERRA_KUBECONFIG names a file that does not exist."""


@asynccontextmanager
async def kubernetes(directory: Path, *, progress: Progress = silent) -> AsyncIterator[Kubernetes]:
    """Provide an API server until the block ends; one from the environment keeps running and keeps its objects.

    Raises NoKubeconfig, KubectlFailed, BinariesNotBuilt, and the errors of `control_plane` and `kube_container`.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if given := os.environ.get(GIVEN):
        progress(f"using the Kubernetes of {GIVEN}")
        yield await _given(Path(given).resolve(), directory, await _kubectl_folder(progress))
    elif can_have_binaries(CONTROL_PLANE) or not await engine_answers():
        async with control_plane(directory, progress=progress) as plane:
            yield plane
    else:
        progress("starting Kubernetes in a container")
        async with kube_container(directory, await _kubectl_folder(progress)) as contained:
            yield contained


async def _given(kubeconfig: Path, directory: Path, programs: Path) -> Kubernetes:
    if not kubeconfig.is_file():
        raise NoKubeconfig(
            f"{GIVEN}={kubeconfig} is not a file: name a kubeconfig, or unset {GIVEN} to have a Kubernetes started"
        )
    unknown = Kubernetes("", kubeconfig, directory, programs)
    url = await unknown.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")
    await unknown.kubectl("get", "--raw=/readyz")
    return replace(unknown, url=url)


async def _kubectl_folder(progress: Progress) -> Path:
    """The folder of any kubectl: its version does not matter."""
    if found := shutil.which("kubectl"):
        return Path(found).parent
    return await ensure_binaries(progress, names=("kubectl",))
