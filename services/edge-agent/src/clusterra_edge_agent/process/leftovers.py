"""Kills what is left of a worker after its slurmd has ended: the steps of its jobs, which slurmd does not end.

They are found in three ways:

- by environment: slurmd passes our environment variable on, and Slurm names the node in the environment of a job's
  processes;
- by socket: slurmstepd, whose title overwrites its environment, has a socket that is named after its node. A step
  `extern` may have no other process;
- by session: all other processes are in the session of one of these, as is what a job starts with an environment of its
  own.
"""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.process.job_steps import step_sockets

log = structlog.get_logger(__name__)

WORKER = "CLUSTERRA_WORKER"
"""The environment variable that tells slurmd the name of its worker."""
_NODE = "SLURMD_NODENAME"
MAX_ENVIRONMENT_BYTES = 4_000_000
"""A process may show as its environment any part of its memory, also more than this machine has."""
_ROUNDS = 50
_ROUND_SECONDS = 0.02


def kill_processes(worker: WorkerName) -> None:
    """Sends SIGKILL to all processes of a worker and waits until they are gone. Logs those that remain. Blocks."""
    for _ in range(_ROUNDS):
        left = _processes(worker)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_ROUND_SECONDS)
    log.warning("processes_left", worker=worker, pids=left)


def _processes(worker: WorkerName) -> list[int]:
    marks = [f"\0{variable}={worker}\0".encode() for variable in (WORKER, _NODE)]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names, not paths
    marked = {pid for pid in pids if any(map(_environment(pid).__contains__, marks))}
    found = marked | _with_step_socket(worker, pids)
    sessions = {_session(pid) for pid in found} - {None, os.getsid(0)}
    return [pid for pid in pids if _session(pid) in sessions and not _is_zombie(pid)]


def _with_step_socket(worker: WorkerName, pids: Iterable[int]) -> set[int]:
    """The processes that have a socket of one of the worker's steps. Sockets are known by network namespace."""
    by_namespace: dict[str, list[int]] = defaultdict(list)
    for pid in pids:
        with suppress(OSError):
            by_namespace[str(Path(f"/proc/{pid}/ns/net").readlink())].append(pid)
    found: set[int] = set()
    for members in by_namespace.values():
        if sockets := _sockets(worker, members):
            found.update(pid for pid in members if not sockets.isdisjoint(_open_files(pid)))
    return found


def _sockets(worker: WorkerName, members: Iterable[int]) -> frozenset[str]:
    for pid in members:
        with suppress(OSError):  # It has ended; the next one is in the same namespace.
            return step_sockets(worker, pid)
    return frozenset()


def _open_files(pid: int) -> set[str]:
    files: set[str] = set()
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names, not paths
            with suppress(OSError):
                files.add(str(Path(f"/proc/{pid}/fd/{number}").readlink()))
    return files


def _environment(pid: int) -> bytes:
    """The first variables of a process, each between two zeros."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb", buffering=0) as file:
            return b"\0%b\0" % (file.read(MAX_ENVIRONMENT_BYTES) or b"")
    except OSError:
        return b""


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        # The name in parentheses is the process's own, and need not be text.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
