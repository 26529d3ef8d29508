"""Finds and ends the processes and mounts that a lab left behind."""

import asyncio
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from clusterra_lab.machine.orphans import reap
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import until
from clusterra_lab.stack.ledger import Ledger, marked

_ROUNDS = 5
_KILL_SECONDS = 10.0


class NotRemoved(LabProblem):
    """A process or a mount of a lab cannot be removed; the text names it."""


@dataclass(frozen=True)
class Leftover:
    """A process of a lab. A stray is not in the ledger and has no ancestor there, because its parent has ended."""

    process: psutil.Process
    name: str
    stray: bool

    def __str__(self) -> str:
        return f"{self.name} (pid {self.process.pid})"


def processes(directory: Path) -> list[Leftover]:
    """The processes of the lab in `directory`, without this process and its ancestors.

    They are the processes in the ledger, those with the lab's mark (a worker outlives the agent that started it), and
    all descendants of both.
    """
    recorded = {entry.pid: entry.name for entry in Ledger(directory).entries() if entry.running}
    ourselves = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    candidates = {
        process.pid: process
        for process in psutil.process_iter(["ppid", "status", "name"])
        if process.pid not in ourselves and process.info["status"] != psutil.STATUS_ZOMBIE
    }
    found: dict[int, Leftover] = {}

    def add(pid: int, name: str, *, stray: bool) -> None:
        process = candidates.pop(pid)
        found[pid] = Leftover(process, name, stray)
        for child in [child for child in candidates.values() if child.info["ppid"] == pid]:
            if child.pid in candidates:
                add(child.pid, recorded.get(child.pid) or str(child.info["name"]), stray=stray)

    for pid, name in recorded.items():
        if pid in candidates:
            add(pid, name, stray=False)
    for pid, process in list(candidates.items()):
        if pid in candidates and marked(pid) == str(directory):
            add(pid, process.info["name"], stray=True)
    return list(found.values())


def mounts(directory: Path) -> list[Path]:
    """The mount points below `directory`, as this process sees them, deepest first."""
    points = [_unescaped(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point.is_relative_to(directory)), key=lambda p: -len(p.parts))


def _unescaped(field: str) -> Path:
    return Path(re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), field))


async def end_processes(directory: Path, *, only_strays: bool = False, grace_seconds: float = 3.0) -> list[str]:
    """Send SIGTERM, then SIGKILL to the lab's processes; returns their descriptions. Raises NotRemoved."""
    ended: list[str] = []
    for _ in range(_ROUNDS):
        left = [leftover for leftover in processes(directory) if leftover.stray or not only_strays]
        if not left:
            return ended
        ended += [str(leftover) for leftover in left]
        await _signal(left, signal.SIGTERM, grace_seconds)
        await _signal(left, signal.SIGKILL, _KILL_SECONDS)
    raise NotRemoved(f"still running after SIGKILL: {', '.join(map(str, processes(directory)))}")


async def _signal(left: list[Leftover], number: signal.Signals, seconds: float) -> None:
    """Send a signal to all these processes and wait for their end, for at most `seconds`."""
    for leftover in left:
        with suppress(psutil.NoSuchProcess):
            # psutil sends no signal if the pid now belongs to another process.
            leftover.process.send_signal(number)
    with suppress(TimeoutError):
        await until(lambda: _gone(left), seconds=seconds, what="the end of leftovers")


def _gone(left: list[Leftover]) -> bool:
    for leftover in left:
        with suppress(psutil.NoSuchProcess):
            if not leftover.process.is_running():
                continue
            if leftover.process.status() != psutil.STATUS_ZOMBIE:
                return False
            if leftover.stray:
                reap(leftover.process.pid)
    return True


async def unmount(directory: Path) -> list[str]:
    """Unmount everything below `directory` and return descriptions of it. Raises NotRemoved."""
    points = mounts(directory)
    for point in points:
        umount = await asyncio.create_subprocess_exec("umount", point, stderr=asyncio.subprocess.PIPE)
        _, complaint = await umount.communicate()
        if umount.returncode != 0:
            raise NotRemoved(f"{point} cannot be unmounted: {complaint.decode().strip()}; unmount it by hand")
    return [f"mount {point}" for point in points]
