"""Simulates the loss of machines: workers vanish with all their processes, and nothing reports it."""

import time
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
from clusterra_lab.stack.stack import Stack

DAEMONS = ("slurmd", "slurmstepd")
STOP_SECONDS = 30.0
"""A signal stops a daemon within milliseconds, unless it is in uninterruptible sleep."""


def lose_workers(lab: Stack) -> None:
    """Send SIGKILL to all processes of the lab's workers, so that no daemon notices the end of another process.

    All daemons are stopped first. A daemon that is just being started can be missing in a list of them, and has no
    ancestor in the list. So the list is taken again until all daemons in it are stopped: then no more can start.
    Raises TimeoutError when a daemon cannot be stopped.
    """
    deadline = time.monotonic() + STOP_SECONDS
    while running := [daemon for daemon, stopped in _daemons(lab).items() if not stopped]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"still running {STOP_SECONDS:g} s after SIGSTOP: {running}")
        for daemon in running:
            with suppress(psutil.NoSuchProcess):
                daemon.suspend()
    families = [[daemon, *daemon.children(recursive=True)] for daemon in _daemons(lab)]
    assert families, "no worker runs"
    for process in chain.from_iterable(families):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _daemons(lab: Stack) -> dict[psutil.Process, bool]:
    """The lab's slurmd and slurmstepd, each with whether it is stopped.

    They are found by their program files, because a process that is just being started does not have its name yet.
    """
    ours = Path(f"/proc/{lab.slurm.init_pid}/ns/pid").readlink()
    found: dict[psutil.Process, bool] = {}
    for pid in psutil.pids():
        # A process that has ended has no program file; one that cannot be inspected is not of this lab.
        with suppress(OSError, psutil.NoSuchProcess):
            process = Path(f"/proc/{pid}")
            program, _, _ = (process / "exe").readlink().name.partition("-")  # Debian calls it slurmd-wlm
            if program in DAEMONS and (process / "ns/pid").readlink() == ours:
                daemon = psutil.Process(pid)
                found[daemon] = daemon.status() == psutil.STATUS_STOPPED
    return found
