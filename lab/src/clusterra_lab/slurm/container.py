"""Slurm's namespaces as a container, for machines with a container engine but without Debian packages.

The engine only creates the namespaces. Commands enter them from this machine (`Namespace.launcher`), as they do with
the Debian root, and the image has the same packages.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_lab.machine.built_image import built_image
from clusterra_lab.machine.container import Image, container
from clusterra_lab.machine.debian_root import other_suites
from clusterra_lab.machine.orphans import adopt_orphans
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.config import HOST, MY_CNF
from clusterra_lab.slurm.directory import IMAGES
from clusterra_lab.slurm.namespace import INIT, INSIDE, SCRATCH, Namespace, command_line, reap_orphans
from clusterra_lab.slurm.root import EMPTY_DATABASE, PACKAGES, SUITE

ADD_SUITE = "add-suite"
"""The script of images/slurm by which an image gets packages of another suite."""
_OPEN_SECONDS = 20.0
_REAP_SECONDS = 0.05


def _dockerfile(packages: Sequence[str]) -> str:
    script = f"/usr/share/clusterra/{ADD_SUITE}"
    adding = "".join(f"COPY {ADD_SUITE} {script}\nRUN sh {script} {suite}\n" for suite in other_suites(packages))
    return f"""\
FROM debian:{SUITE}-slim
{adding}\
RUN printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d \\
 && chmod 755 /usr/sbin/policy-rc.d \\
 && apt-get update --quiet \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {" ".join(packages)} \\
 && rm -rf /var/lib/apt/lists/*
COPY my.cnf empty-database /usr/share/clusterra/
RUN MY_CNF="$(cat /usr/share/clusterra/my.cnf)" sh /usr/share/clusterra/empty-database
"""


class EngineElsewhere(LabProblem):
    """The engine runs containers on another machine."""


async def ensure_image(progress: Progress = silent, *, software: Sequence[str] = ()) -> str:
    """Return the name of the image with Slurm and an empty database; the image is built when missing.

    An image with `software` has these packages besides. Raises NoContainerEngine, ImageNotBuilt.
    """
    files = {
        "Dockerfile": _dockerfile((*PACKAGES, *software)),
        "my.cnf": MY_CNF,
        "empty-database": EMPTY_DATABASE,
        **({ADD_SUITE: (IMAGES / ADD_SUITE).read_text()} if software else {}),
    }
    return await built_image("clusterra-lab-slurm", files, f"{', '.join(PACKAGES[:3])} and more", progress)


@asynccontextmanager
async def contained(image: str, folders: Mapping[Path, str]) -> AsyncIterator[Namespace]:
    """Open namespaces like `namespace` does, over a read-only image instead of a root.

    Raises NoContainerEngine, EngineElsewhere, TimeoutError.
    """
    adopt_orphans()
    described = Image(
        image,
        volumes=folders,
        scratch=SCRATCH,
        command=["sh", "-c", INSIDE],
        options={
            "network_mode": "host",
            "hostname": HOST,
            "read_only": True,
        },
    )
    async with container(described) as server:
        init_pid = await server.pid()

        def opened() -> bool:
            return command_line(init_pid)[:1] == [INIT]

        try:
            await until(opened, seconds=_OPEN_SECONDS, what=f"the container of Slurm (pid {init_pid})")
        except TimeoutError as error:
            raise EngineElsewhere(
                f"{error}. The container's processes must be visible on this machine: a remote DOCKER_HOST cannot work"
            ) from error
        reaping = asyncio.create_task(_reap())
        try:
            yield Namespace(init_pid)
            await server.kill()
        finally:
            reaping.cancel()


async def _reap() -> None:
    """Reap orphans of the container: until this is done, the kernel keeps the first process, and so the container."""
    while True:
        reap_orphans()
        await asyncio.sleep(_REAP_SECONDS)
