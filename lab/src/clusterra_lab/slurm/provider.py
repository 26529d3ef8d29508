"""Chooses how Slurm's namespaces are made: over a Debian root, else as a container."""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.container import contained, ensure_image
from clusterra_lab.slurm.directory import SlurmDirectory
from clusterra_lab.slurm.namespace import Namespace, namespace
from clusterra_lab.slurm.root import SOFTWARE, can_have_root, ensure_root

type Opener = Callable[[SlurmDirectory], AbstractAsyncContextManager[Namespace]]
"""Opens the namespaces of one cluster."""

type Provider = Callable[[Progress], Awaitable[Opener]]
"""Builds the root or the image that all clusters of this machine share, unless it exists. Raises LabProblem."""


class NotRoot(LabProblem):
    """Slurm can only be run by root."""


async def native(progress: Progress, *, software: Sequence[str] = ()) -> Opener:
    """Use the root of $CLUSTERRA_SLURM_ROOT, else one built by debootstrap."""
    root = await ensure_root(progress, software=software)
    return lambda folders: namespace(root, folders.mounts, folders.logs / "namespace.log")


async def in_container(progress: Progress, *, software: Sequence[str] = ()) -> Opener:
    """Use an image built by the container engine."""
    image = await ensure_image(progress, software=software)
    return lambda folders: contained(image, folders.mounts)


async def first_available(progress: Progress = silent, *, software: Sequence[str] = ()) -> Opener:
    """Use `native` if a root exists or can be built, else `in_container`. Raises NotRoot."""
    if os.geteuid() != 0:
        raise NotRoot(
            "Slurm needs root, because it runs jobs as several users and makes private mounts: run this as root. "
            "If you may use a container engine, `make` runs its targets as root in a container."
        )
    return await (native if can_have_root() or not await engine_answers() else in_container)(
        progress, software=software
    )


async def with_software(progress: Progress = silent) -> Opener:
    """Use what `first_available` does, with the packages that jobs of `make test-software` use."""
    return await first_available(progress, software=SOFTWARE)
