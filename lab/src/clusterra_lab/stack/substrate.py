"""The substrate of a lab's workers: processes of this machine, or pods of a Kubernetes on it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

from clusterra_lab.kube.edge import kubernetes_edge
from clusterra_lab.machine.ports import reserved_ports
from clusterra_lab.machine.progress import Progress
from clusterra_lab.slurm.config import ETC, SCRIPTS
from clusterra_lab.slurm.control_plane import SlurmCluster

SubstrateName = Literal["process", "kubernetes"]

WORKER_PORTS = 200
"""Number of ports for workers, and so the most workers that a lab can have."""
_OWN_FOLDERS = (
    "unshare",
    "--mount",
    "sh",
    "-euc",
    f"mkdir -p /run/slurm; mount -t tmpfs slurm /run/slurm; mount -t tmpfs -o mode=1777 tmp /tmp;"
    f' exec {SCRIPTS}/worker-namespace "$@"',
    "sh",
)
"""Gives each slurmd its own /run/slurm and /tmp. On start, slurmd replaces the socket sack.socket in the first: if two
slurmd started together in one folder, one of them would find the address in use and end. In the second are the private
folders of its jobs."""


class Substrate(Protocol):
    """Runs workers. It is opened before Slurm, because it determines the address where slurmctld listens."""

    @property
    def address(self) -> str:
        """The address of this machine as workers reach it."""

    @property
    def one_host(self) -> bool:
        """Whether all workers share this machine's folders."""

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """Prepare for workers of this cluster; returns the edge-agent's variables."""


class Processes:
    """Workers are processes of this machine, each with its own port."""

    address = "127.0.0.1"
    one_host = True

    def __init__(self, ports: range) -> None:
        self._ports = ports

    async def deploy(self, slurm: SlurmCluster) -> Mapping[str, str]:
        """See `Substrate.deploy`."""
        return {
            "CLUSTERRA_WORKER_LAUNCHER": json.dumps((*slurm.launcher, *_OWN_FOLDERS)),
            "CLUSTERRA_SLURMD_CONF": f"{ETC}/slurm.conf",
            "CLUSTERRA_SLURMD_SPOOL": f"{slurm.spool_dir}/{{worker}}",
            "CLUSTERRA_SLURMD_FIRST_PORT": str(self._ports.start),
            "CLUSTERRA_SLURMD_PORTS": str(len(self._ports)),
        }


@asynccontextmanager
async def edge_substrate(name: SubstrateName, directory: Path, progress: Progress) -> AsyncIterator[Substrate]:
    """Open a substrate until the block ends. Raises the errors of `kubernetes_edge` and `reserved_ports`."""
    if name == "kubernetes":
        async with kubernetes_edge(directory, progress=progress) as edge:
            yield edge
    else:
        with reserved_ports(WORKER_PORTS) as ports:
            yield Processes(ports)
