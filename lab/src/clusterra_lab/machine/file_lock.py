"""One process at a time, over all labs of this machine."""

import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent


@asynccontextmanager
async def alone(path: Path, *, seconds: float, what: str, progress: Progress = silent) -> AsyncIterator[None]:
    """Hold the lock file `path`; it is free again at the end of this process at the latest.

    Waits for whoever holds it. Raises TimeoutError after `seconds`, naming `what` the other does.
    """
    with path.open("w") as lock:
        if not _locked(lock.fileno()):
            progress(f"waiting for {what} by another lab")
            await until(lambda: _locked(lock.fileno()), seconds=seconds, what=f"{what} by another lab", every=0.2)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
