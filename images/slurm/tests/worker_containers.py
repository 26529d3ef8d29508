"""Containers of images/slurm, run by a container engine like in a pod: read-only, with only a worker's capabilities."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

from worker_site import Site

POD = [
    *("--cap-drop=ALL", "--cap-add=CHOWN", "--cap-add=KILL", "--cap-add=SETGID", "--cap-add=SETUID"),
    *("--security-opt=no-new-privileges", "--read-only"),
    *(f"--tmpfs={folder}:mode=0777,exec" for folder in ("/run", "/tmp", "/var/spool/slurmd")),
]
WORKER = [*POD, "--network=host"]


async def docker(*argv: str) -> CompletedProcess[str]:
    process = await asyncio.create_subprocess_exec(
        "docker", *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return CompletedProcess(argv, process.returncode or 0, output.decode())


def image(target: str) -> str:
    return f"clusterra-test-{target}"


def key(site: Site, folder: Path, uid: int) -> Path:
    """A folder with only Slurm's key, like a mounted Secret."""
    folder.mkdir()
    shutil.copy(site.cluster.log_dir.parent / "etc" / "slurm.key", folder)
    (folder / "slurm.key").chmod(0o400)
    os.chown(folder / "slurm.key", uid, uid)
    return folder


@asynccontextmanager
async def running(target: str, *options: str, command: tuple[str, ...] = ()) -> AsyncIterator[str]:
    """Run a container until the block ends; yields its id."""
    started = await docker("run", "--detach", *options, image(target), *command)
    assert started.returncode == 0, started.stdout
    container = started.stdout.split()[-1]
    try:
        yield container
    finally:
        await docker("rm", "--force", container)


def worker(name: str, site: Site, *, memory_mib: int = 256) -> list[str]:
    """The environment of a worker's pod, as options of docker."""
    environment = {
        "POD_NAME": name,
        "CLUSTERRA_SHAPE": "compute-xs",
        "CLUSTERRA_FAMILY": "compute",
        "CLUSTERRA_CPUS": str(len(os.sched_getaffinity(0))),
        "CLUSTERRA_MEMORY_MIB": str(memory_mib),
        "CLUSTERRA_SLURMD_CONF_SERVER": f"{site.cluster.slurmctld_address}:{site.cluster.slurmctld_port}",
        "CLUSTERRA_TERMINATION_LOG": "/tmp/termination-log",
    }
    return [f"--env={name}={value}" for name, value in environment.items()]
