"""Where Slurm's namespaces come from: over a Debian root, else as a container."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.container import contained, ensure_image
from clusterra_lab.slurm.directory import SlurmDirectory
from clusterra_lab.slurm.namespace import Namespace, namespace
from clusterra_lab.slurm.root import can_have_root, ensure_root

type Opener = Callable[[SlurmDirectory], AbstractAsyncContextManager[Namespace]]
"""Opens the namespaces of one cluster."""

type Provider = Callable[[Progress], Awaitable[Opener]]
"""Builds what all clusters of this machine share when it is missing. Raises LabProblem."""


class NotRoot(LabProblem):
    """Somebody else than root wanted to run Slurm."""


async def native(progress: Progress) -> Opener:
    """The root of $CLUSTERRA_SLURM_ROOT, else one made by debootstrap."""
    root = await ensure_root(progress)
    return lambda folders: namespace(root, folders.mounts, folders.logs / "namespace.log")


async def in_container(progress: Progress) -> Opener:
    """An image made by the container engine."""
    image = await ensure_image(progress)
    return lambda folders: contained(image, folders.mounts)


async def first_possible(progress: Progress = silent) -> Opener:
    """`native` where there is a root or can be one, else `in_container`. Raises NotRoot."""
    if os.geteuid() != 0:
        raise NotRoot(
            "Slurm runs jobs as several users, in mounts of its own, which takes root: run this as root. "
            "`make` does so in a container where this user may use a container engine."
        )
    return await (native if can_have_root() or not await engine_answers() else in_container)(progress)
