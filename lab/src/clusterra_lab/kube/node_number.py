"""Resources of this machine that a real node holds: an address, a bridge with its firewall rule, and a cgroup.

Each is named by the node's number, and a number has one owner at a time. So the leftovers of a killed owner can be
found and removed without a record of them.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.components import Site
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import until

_NUMBERS = range(1, 17)
_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = {"cpu", "cpuset", "io", "memory", "pids"}
_CNI_STATE = Path("/var/lib/cni")
_REMOVAL_SECONDS = 20.0
_WEIGHT = 16
"""The share of the CPUs that all pods of a node get together, counted in processes outside. With the default of one,
pods take minutes to start on a machine where a dozen other processes compute."""


class NodeNotPossible(LabProblem):
    """A real node cannot run on this machine; the text says why."""


@dataclass(frozen=True)
class NodeNumber:
    """The number of a node, which names the resources that the node holds."""

    number: int
    own_network: bool = False
    """Whether the node has a network namespace of its own, in which Services and names work (`node_network`)."""

    @property
    def machine_address(self) -> str:
        """An address of this machine, on its loopback interface, at which the node and its pods reach it."""
        return f"10.251.0.{self.number}"

    @property
    def address(self) -> str:
        """The node's address, where kubelet listens. kubelet does not accept 127.0.0.1."""
        return f"10.251.1.{self.number}" if self.own_network else self.machine_address

    @property
    def pods(self) -> str:
        """The network of the node's pods."""
        return f"10.252.{self.number}.0/24"

    @property
    def site(self) -> Site:
        """The site of a control plane whose API server and Services the pods reach, and this machine too."""
        return Site(self.machine_address, f"10.253.{self.number}.0/24")

    @property
    def bridge(self) -> str:
        """The interface of the pods' network: the CNI plugin's bridge, or the link to the node's own network."""
        return f"clusterra{self.number}"

    @property
    def cgroup(self) -> str:
        """The name of the node's cgroup, below the root of each hierarchy."""
        return f"clusterra-node-{self.number}"

    async def take(self) -> None:
        """Create the address, the firewall rule and the cgroup. Raises NodeNotPossible."""
        complaint = await call("ip", "address", "add", f"{self.machine_address}/32", "dev", "lo")
        if complaint:
            raise NodeNotPossible(f"the address {self.machine_address} cannot be added to lo: {complaint}")
        if not self.own_network and shutil.which("iptables") and (complaint := await self._rule("--insert")):
            raise NodeNotPossible(f"the firewall rule for the pods' bridge {self.bridge} cannot be added: {complaint}")
        try:
            for folder in self._cgroups():
                folder.mkdir()
                _delegate(folder)
        except OSError as error:
            raise NodeNotPossible(f"the node's cgroup cannot be created: {error}") from error

    async def remove(self) -> list[str]:
        """Remove these resources; returns those that existed. Raises TimeoutError while processes use the cgroup."""
        found = []
        if not await call("ip", "address", "delete", f"{self.machine_address}/32", "dev", "lo"):
            found.append(f"address {self.machine_address}")
        if not await call("ip", "link", "delete", self.bridge):
            found.append(f"interface {self.bridge}")
        if shutil.which("iptables") and not await self._rule("--delete"):
            found.append(f"rule for {self.bridge}")
        if self._holds_a_cgroup():
            found.append(f"cgroup {self.cgroup}")
            await until(self._no_cgroup, seconds=_REMOVAL_SECONDS, what=f"an unused cgroup {self.cgroup}")
        if not any(NodeNumber(other)._holds_a_cgroup() for other in _NUMBERS):
            with suppress(OSError):
                # The folder was created as a mount point; it stays when another program has files in it. To remove it
                # would unmount what other nodes have mounted there, and their files would be written to this machine.
                _CNI_STATE.rmdir()
        return found

    def _holds_a_cgroup(self) -> bool:
        return any(folder.exists() for folder in self._cgroups())

    async def _rule(self, command: str) -> str:
        """Insert or delete the rule that lets pods reach each other; container engines have all bridges filtered."""
        bridge = ("--in-interface", self.bridge, "--out-interface", self.bridge)
        return await call("iptables", "--wait", command, "FORWARD", *bridge, "--jump", "ACCEPT")

    def _cgroups(self) -> list[Path]:
        if (_CGROUPS / "cgroup.controllers").exists():
            return [_CGROUPS / self.cgroup]
        return [hierarchy / self.cgroup for hierarchy in sorted(_CGROUPS.iterdir()) if _is_hierarchy(hierarchy)]

    def _no_cgroup(self) -> bool:
        for folder in self._cgroups():
            for below, _, _ in os.walk(folder, topdown=False):
                with suppress(OSError):
                    Path(below).rmdir()
        return not any(folder.exists() for folder in self._cgroups())


@asynccontextmanager
async def reserved_node_number(*, own_network: bool = False) -> AsyncIterator[NodeNumber]:
    """Reserve a number that no other node of this machine has, with its resources, until the block ends.

    With `own_network`, the machine gets no bridge and no firewall rule: these are in the node's own network.
    Raises NodeNotPossible.
    """
    with _free_number(own_network=own_network) as number:
        await number.remove()
        try:
            await number.take()
            yield number
        finally:
            await number.remove()


async def remove_node_leftovers() -> list[str]:
    """Remove the resources of nodes whose owner was killed, and return their names. Running nodes are not touched."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        # No node can have run here, or another user has to remove its resources.
        return []
    found: list[str] = []
    for number in map(NodeNumber, _NUMBERS):
        with _reserved(number) as ours:
            if ours:
                found += await number.remove()
    return found


@contextmanager
def _free_number(*, own_network: bool) -> Iterator[NodeNumber]:
    for candidate in _NUMBERS:
        number = NodeNumber(candidate, own_network)
        with _reserved(number) as ours:
            if ours:
                yield number
                return
    raise NodeNotPossible(f"{len(_NUMBERS)} real nodes already run on this machine: stop some first")


@contextmanager
def _reserved(number: NodeNumber) -> Iterator[bool]:
    """Try to reserve the number until the block ends, at the latest until this process ends; yields the success."""
    with socket.socket(socket.AF_UNIX) as sign:
        try:
            sign.bind(f"\0clusterra-node-{number.number}")
        except OSError:
            yield False
            return
        yield True


def _is_hierarchy(folder: Path) -> bool:
    return not folder.is_symlink() and (folder / "cgroup.procs").exists()


def _delegate(folder: Path) -> None:
    """Give a new cgroup CPUs (version 1, where a new cpuset has none) or controllers (version 2), and its weight."""
    if (folder / "tasks").exists():
        if (folder / "cpu.shares").exists():
            (folder / "cpu.shares").write_text(str(1024 * _WEIGHT))
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (folder / setting).exists():
                (folder / setting).write_text((folder.parent / setting).read_text())
        return
    for group in (folder.parent, folder):
        for controller in _CONTROLLERS & set((group / "cgroup.controllers").read_text().split()):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
    if (folder / "cpu.weight").exists():
        (folder / "cpu.weight").write_text(str(100 * _WEIGHT))


async def call(*argv: str) -> str:
    """Run a program and return its error text, which is empty on success."""
    process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
    _, complaint = await process.communicate()
    return complaint.decode().strip() or f"exit code {process.returncode}" if process.returncode else ""
