"""Compiles the plugins of images/slurm for the cluster's own Slurm."""

import os
import platform
import shutil
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run

PLUGINS = ("site_factor_clusterra", "spank_clusterra_names")
"""The first starts the main scheduler at each submit, the second lets workers learn the names of their users."""
PLUGIN_FOLDERS = f"/usr/lib/{platform.machine()}-linux-gnu/slurm-wlm"
"""Where Debian's packages have Slurm's own plugins."""


class PluginNotBuilt(LabProblem):
    """The compiler rejected a plugin; the text has its output."""


def can_build() -> bool:
    """Whether this machine has a C compiler. Without one the lab's jobs wait for the scheduler, for up to a second, and
    find no names of users."""
    return shutil.which("cc") is not None


async def build(version: str, scripts: Path, log: Path) -> None:
    """Compile the plugins in the folder of the scripts for a `slurmctld -V` such as `slurm 26.05.5`.

    Raises PluginNotBuilt.
    """
    program = str(scripts / "build-plugin")
    for plugin in PLUGINS:
        argv = [program, version.split()[-1], plugin, str(scripts)]
        done = await run(program, argv, log=log, env={"PATH": os.environ["PATH"]})
        if done.exit_code != 0:
            raise PluginNotBuilt(f"{' '.join(argv)} ended with exit code {done.exit_code}:\n{done.tail()}")
