"""Finds the job steps that run on a worker, without slurmctld: each slurmstepd has a socket named after its node.

slurmd finds its steps by the same sockets, `<spool>/<node>_<job>.<step>`. They exist before the job's first process and
until after its last. The kernel lists only sockets of living processes, so a killed slurmstepd leaves none. A user's
process can give its own socket such a name, so one that a user has made does not count.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.process.local_sockets import local_sockets

_EXTERN = "4294967292"
"""The number of the step `extern` (SLURM_EXTERN_CONT)."""


def running_steps(worker: WorkerName, pid: int) -> tuple[str, ...]:
    """Returns the steps as `<job>.<step>`, sorted; `pid` is a process in the network namespace of the worker's slurmd.

    Raises OSError when that process has ended. Blocks: the kernel's list may be long.
    """
    return tuple(sorted({step for _, step in _listed(worker, pid)}))


def step_sockets(worker: WorkerName, pid: int) -> frozenset[str]:
    """Returns the sockets of these steps as `/proc/<pid>/fd` names them: `socket:[4711]`. Raises OSError likewise."""
    return frozenset(f"socket:[{inode}]" for inode, _ in _listed(worker, pid))


def _listed(worker: WorkerName, pid: int) -> list[tuple[str, str]]:
    """The inodes of the sockets, and their steps."""
    step = rf"/{re.escape(worker)}_([0-9]+\.[0-9]+(?:\.[0-9]+)?)"
    if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - magic links
        with suppress(OSError):
            of_worker = local_sockets(f"/{worker}_".encode())
            named = ((each, re.search(rb"%b\Z" % step.encode(), each.path)) for each in of_worker)
            return [(str(each.inode), name[1].decode()) for each, name in named if name and each.may_be_slurms]
    # Where the kernel does not tell owners, each counts: a worker is kept rather than ended under a job.
    sockets = Path(f"/proc/{pid}/net/unix").read_text(errors="replace")
    return re.findall(rf" ([0-9]+) \S*{step}$", sockets, re.MULTILINE)


def is_extern(step: str) -> bool:
    """Whether a step is the `extern` of its job, which runs nothing of the job itself.

    slurmctld makes it first and ends it last (PrologFlags=Contain). Nobody ends that of a job that it has forgotten.
    """
    return step.split(".")[1] == _EXTERN
