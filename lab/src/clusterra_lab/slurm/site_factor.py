"""Compiles the plugin of images/slurm that starts the main scheduler at each submit, for the cluster's own Slurm."""

import os
import platform
import shutil
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run

PLUGIN_FOLDERS = f"/usr/lib/{platform.machine()}-linux-gnu/slurm-wlm"
"""Where Debian's packages have Slurm's own plugins."""


class PluginNotBuilt(LabProblem):
    """The compiler rejected the plugin; the text has its output."""


def can_build() -> bool:
    """Whether this machine has a C compiler. Without one the lab's jobs wait for the scheduler, for up to a second."""
    return shutil.which("cc") is not None


async def build(version: str, scripts: Path, log: Path) -> None:
    """Compile the plugin in the folder of the scripts for a `slurmctld -V` such as `slurm 26.05.5`.

    Raises PluginNotBuilt.
    """
    program = str(scripts / "build-site-factor")
    done = await run(program, [program, version.split()[-1], str(scripts)], log=log, env={"PATH": os.environ["PATH"]})
    if done.exit_code != 0:
        raise PluginNotBuilt(f"{program} ended with exit code {done.exit_code}:\n{done.tail()}")
