"""Kills what is left of a worker after its slurmd has ended: the steps of its jobs, which slurmd does not end.

They are found in two ways:

- by environment: slurmd passes our environment variable on, and Slurm names the node in the environment of a job's
  processes;
- by session: all other processes are in the session of a process found by its environment. These are slurmstepd, whose
  title overwrites its environment, and what a job starts with an environment of its own.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import structlog
from clusterra_contracts.identity import WorkerName

log = structlog.get_logger(__name__)

WORKER = "CLUSTERRA_WORKER"
"""The environment variable that tells slurmd the name of its worker."""
_NODE = "SLURMD_NODENAME"
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
    marks = {f"{variable}={worker}".encode() for variable in (WORKER, _NODE)}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names, not paths
    sessions = {_session(pid) for pid in pids if not marks.isdisjoint(_environment(pid))} - {None, os.getsid(0)}
    return [pid for pid in pids if _session(pid) in sessions and not _is_zombie(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
