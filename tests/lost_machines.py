"""Workers that go as machines go: with all that runs on them, and with nobody left to tell of it."""

import time
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
from clusterra_lab.stack.stack import Stack

DAEMONS = ("slurmd", "slurmstepd")
STOP_SECONDS = 30.0
"""A signal stops a daemon in milliseconds, unless it is in the kernel and cannot be disturbed."""


def lose_workers(lab: Stack) -> None:
    """SIGKILL everything on the lab's workers; no daemon of theirs sees any of it die.

    All daemons are stopped first. One that was just being started is not among those that were looked at, and has no
    parent that leads to it, so they are looked at again until each that is found is stopped: these start no more.
    Raises TimeoutError when some cannot be stopped.
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
    """Whether each is stopped. Found by their programs, for one that is just being started has not yet its name."""
    ours = Path(f"/proc/{lab.slurm.init_pid}/ns/pid").readlink()
    found: dict[psutil.Process, bool] = {}
    for pid in psutil.pids():
        # What has ended has no program any more; what nobody may look at is none of ours.
        with suppress(OSError, psutil.NoSuchProcess):
            process = Path(f"/proc/{pid}")
            program, _, _ = (process / "exe").readlink().name.partition("-")  # Debian's are called slurmd-wlm
            if program in DAEMONS and (process / "ns/pid").readlink() == ours:
                daemon = psutil.Process(pid)
                found[daemon] = daemon.status() == psutil.STATUS_STOPPED
    return found
