"""Adopts and reaps orphans.

Workers outlive the edge-agent that started them, and then no parent waits for them. The init process of most containers
does not either. Their zombies would look like running workers to a check by pid.
"""

import ctypes
import os
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of all descendants of this process whose parent ends (see prctl(2))."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def reap(pid: int) -> None:
    """Remove an adopted orphan that is a zombie; does nothing if it still runs or has another parent."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
