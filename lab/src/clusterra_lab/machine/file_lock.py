"""Locks between all labs of this machine."""

import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent


@asynccontextmanager
async def exclusive_lock(path: Path, *, seconds: float, what: str, progress: Progress = silent) -> AsyncIterator[None]:
    """Hold the lock file `path` until the block ends, at the latest until this process ends.

    Waits while another process holds it. Raises TimeoutError after `seconds`; the text names `what` the holder does.
    """
    with path.open("w") as lock:
        if not _try_lock(lock.fileno()):
            progress(f"waiting for {what} by another lab")
            await until(lambda: _try_lock(lock.fileno()), seconds=seconds, what=f"{what} by another lab", every=0.2)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
