"""Orphans: workers are no children of the agent that watches them, so that they outlive it, and nobody waits for them.

The init process of most containers does not either; their zombies would look like workers to whoever asks by pid.
"""

import ctypes
import os
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of all descendants of this process whose own parent ends (prctl(2))."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def reap(pid: int) -> None:
    """Remove an adopted orphan that is a zombie; nothing when it still runs or is somebody else's."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
