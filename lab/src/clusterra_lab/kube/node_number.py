"""What a real node takes of this machine beside processes and mounts: an address, a bridge, a rule for it, a cgroup.

All of it is named by the node's number, and a number has one owner at a time: so what a killed owner left behind is
found and removed without any record of it.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import until

_NUMBERS = range(1, 17)
_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = {"cpu", "cpuset", "io", "memory", "pids"}
_CNI_STATE = Path("/var/lib/cni")
_REMOVAL_SECONDS = 20.0


class NodeNotPossible(LabProblem):
    """A real node cannot run on this machine; the text says why."""


@dataclass(frozen=True)
class NodeNumber:
    """Names what one node takes of this machine."""

    number: int

    @property
    def address(self) -> str:
        """On the loopback interface; kubelet refuses 127.0.0.1."""
        return f"10.251.0.{self.number}"

    @property
    def pods(self) -> str:
        """The network of its pods."""
        return f"10.252.{self.number}.0/24"

    @property
    def bridge(self) -> str:
        """The interface that the CNI plugin makes."""
        return f"clusterra{self.number}"

    @property
    def cgroup(self) -> str:
        """Below the root of each hierarchy."""
        return f"clusterra-node-{self.number}"

    async def take(self) -> None:
        """Make the address, the rule and the cgroup. Raises NodeNotPossible."""
        complaint = await _call("ip", "address", "add", f"{self.address}/32", "dev", "lo")
        if complaint:
            raise NodeNotPossible(f"the node's address {self.address} cannot be added to lo: {complaint}")
        if shutil.which("iptables") and (complaint := await self._rule("--insert")):
            raise NodeNotPossible(f"the pods' bridge {self.bridge} cannot be opened: {complaint}")
        try:
            for folder in self._cgroups():
                folder.mkdir()
                _delegate(folder)
        except OSError as error:
            raise NodeNotPossible(f"the node's cgroup cannot be made here: {error}") from error

    async def remove(self) -> list[str]:
        """Remove what is there of it; what that was. Raises TimeoutError when processes still use its cgroup."""
        found = []
        if not await _call("ip", "address", "delete", f"{self.address}/32", "dev", "lo"):
            found.append(f"address {self.address}")
        if not await _call("ip", "link", "delete", self.bridge):
            found.append(f"bridge {self.bridge}")
        if shutil.which("iptables") and not await self._rule("--delete"):
            found.append(f"rule for {self.bridge}")
        if any(folder.exists() for folder in self._cgroups()):
            found.append(f"cgroup {self.cgroup}")
            await until(self._no_cgroup, seconds=_REMOVAL_SECONDS, what=f"an unused cgroup {self.cgroup}")
        with suppress(OSError):
            # It was made as a place for a mount, and stays when it is somebody else's.
            _CNI_STATE.rmdir()
        return found

    async def _rule(self, command: str) -> str:
        """Pods may call each other, also beside a container engine, which has all bridges of the machine filtered."""
        bridge = ("--in-interface", self.bridge, "--out-interface", self.bridge)
        return await _call("iptables", "--wait", command, "FORWARD", *bridge, "--jump", "ACCEPT")

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
async def taken_number() -> AsyncIterator[NodeNumber]:
    """A number that no other node of this machine has, with its address and cgroup, until the block ends.

    Raises NodeNotPossible.
    """
    with _claimed() as number:
        await number.remove()
        try:
            await number.take()
            yield number
        finally:
            await number.remove()


async def remove_leftovers() -> list[str]:
    """Remove what nodes left whose owner was killed; what it was. Running nodes are not touched."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        # Then there has never been a node, or somebody else has to remove it.
        return []
    found: list[str] = []
    for number in map(NodeNumber, _NUMBERS):
        with _sign(number) as ours:
            if ours:
                found += await number.remove()
    return found


@contextmanager
def _claimed() -> Iterator[NodeNumber]:
    for number in map(NodeNumber, _NUMBERS):
        with _sign(number) as ours:
            if ours:
                yield number
                return
    raise NodeNotPossible(f"{len(_NUMBERS)} real nodes already run on this machine: end some first")


@contextmanager
def _sign(number: NodeNumber) -> Iterator[bool]:
    """Whether the number is ours until the block ends; the kernel gives it back at the end of this process."""
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
    """Version 1: a new cpuset has no CPU. Version 2: a new group has the controllers that its parent hands down."""
    if (folder / "tasks").exists():
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (folder / setting).exists():
                (folder / setting).write_text((folder.parent / setting).read_text())
        return
    for group in (folder.parent, folder):
        for controller in _CONTROLLERS & set((group / "cgroup.controllers").read_text().split()):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


async def _call(*argv: str) -> str:
    """Run a program; its complaint, empty when there was none."""
    process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
    _, complaint = await process.communicate()
    return complaint.decode().strip() or f"exit code {process.returncode}" if process.returncode else ""
