"""Where a lab's workers run: as processes of this machine, or as pods of a Kubernetes on it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

from clusterra_lab.kube.edge import kubernetes_edge
from clusterra_lab.machine.ports import reserved_ports
from clusterra_lab.machine.progress import Progress
from clusterra_lab.slurm.config import ETC
from clusterra_lab.slurm.control_plane import SlurmCluster

SubstrateName = Literal["process", "kubernetes"]

WORKER_PORTS = 200
"""How many; also the most workers there can be."""
_OWN_RUN = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mkdir -p /run/slurm && mount -t tmpfs slurm /run/slurm && exec "$@"',
    "sh",
)
"""slurmd replaces the socket /run/slurm/sack.socket when it starts: of two that start at once on one machine, one would
find its address in use and end."""


class Substrate(Protocol):
    """Is there before Slurm: it says where slurmctld must listen."""

    @property
    def address(self) -> str:
        """Of this machine, as workers reach it."""

    @property
    def one_host(self) -> bool:
        """Whether all workers share this machine's folders."""

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """Get ready for workers of this cluster; what its edge-agent must be told."""


class Processes:
    """Workers are processes, each with a port of its own."""

    address = "127.0.0.1"
    one_host = True

    def __init__(self, ports: range) -> None:
        self._ports = ports

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """See `Substrate.deploy`."""
        return {
            "CLUSTERRA_WORKER_LAUNCHER": json.dumps((*slurm.launcher, *_OWN_RUN)),
            "CLUSTERRA_SLURMD_CONF": f"{ETC}/slurm.conf",
            "CLUSTERRA_SLURMD_SPOOL": f"{slurm.spool_dir}/{{worker}}",
            "CLUSTERRA_SLURMD_FIRST_PORT": str(self._ports.start),
            "CLUSTERRA_SLURMD_PORTS": str(len(self._ports)),
        }


@asynccontextmanager
async def edge_substrate(name: SubstrateName, directory: Path, progress: Progress) -> AsyncIterator[Substrate]:
    """Open one until the block ends. Raises what `kubernetes_edge` and `reserved_ports` raise."""
    if name == "kubernetes":
        async with kubernetes_edge(directory, progress=progress) as edge:
            yield edge
    else:
        with reserved_ports(WORKER_PORTS) as ports:
            yield Processes(ports)
