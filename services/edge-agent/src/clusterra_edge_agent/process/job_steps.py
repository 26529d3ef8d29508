"""Finds the job steps that run on a worker, without slurmctld: each slurmstepd has a socket named after its node.

slurmd finds its steps by the same sockets, `<spool>/<node>_<job>.<step>`. They exist before the job's first process and
until after its last. The kernel lists only sockets of living processes, so a killed slurmstepd leaves none.
"""

import re
from pathlib import Path

from clusterra_contracts.identity import WorkerName

_EXTERN = "4294967292"
"""The number of the step `extern` (SLURM_EXTERN_CONT)."""


def running_steps(worker: WorkerName, pid: int) -> tuple[str, ...]:
    """Returns the steps as `<job>.<step>`, sorted; `pid` is a process in the network namespace of the worker's slurmd.

    Raises OSError when that process has ended.
    """
    sockets = Path(f"/proc/{pid}/net/unix").read_text()
    found = re.findall(rf"/{re.escape(worker)}_([0-9]+\.[0-9]+(?:\.[0-9]+)?)$", sockets, re.MULTILINE)
    return tuple(sorted(set(found)))


def is_extern(step: str) -> bool:
    """Whether a step is the `extern` of its job, which runs nothing of the job itself.

    slurmctld makes it first and ends it last (PrologFlags=Contain). Nobody ends that of a job that it has forgotten.
    """
    return step.split(".")[1] == _EXTERN
