"""`lab down`: stops a lab, also after a crash, and checks that nothing of it is left."""

import os
import signal
from pathlib import Path

from clusterra_lab.machine.process import until
from clusterra_lab.stack.home import Home
from clusterra_lab.stack.leftovers import NotRemoved, mounts, processes
from clusterra_lab.stack.up import end_leftovers

STOP_SECONDS = 90.0


async def take_down(directory: Path) -> list[str]:
    """Stop the lab of a folder and return descriptions of everything that was found; empty if no lab was there.

    A running `lab up` gets SIGTERM, and SIGKILL if it does not end. Raises NotRemoved if anything of the lab is left.
    """
    home = Home(directory)
    found: list[str] = []
    owner = home.last_owner()
    if owner is not None and not owner.running:
        found.append(f"lab up (pid {owner.pid}), which was killed")
    elif owner is not None:
        found.append(f"lab up (pid {owner.pid})")
        os.kill(owner.pid, signal.SIGTERM)
        try:
            await until(lambda: not owner.running, seconds=STOP_SECONDS, what="the end of lab up", every=0.05)
        except TimeoutError:
            found.append(f"it had not ended after {STOP_SECONDS:.0f} s and was killed")
            os.kill(owner.pid, signal.SIGKILL)
        # On a busy machine a killed process keeps its lock for a while.
        await until(lambda: not home.is_locked(), seconds=STOP_SECONDS, what=f"the end of pid {owner.pid}", every=0.05)
    with home.locked():
        found += await end_leftovers(home)
        if left := [*map(str, processes(home.directory)), *map(str, mounts(home.directory))]:
            raise NotRemoved(f"still there: {', '.join(left)}")
    return found
