"""Installs the tools of `lab/tools.lock` into a separate virtual environment in the cache.

They need other versions of packages than the project's own environment has.
"""

import hashlib
import shutil
import sys
from pathlib import Path

from uv import find_uv_bin

from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run
from clusterra_lab.machine.progress import Progress, silent

LOCK = Path(__file__).parents[3] / "tools.lock"
_WAIT_SECONDS = 600.0


class ToolsNotInstalled(LabProblem):
    """uv could not install the tools; the text has the end of its output."""


async def tools_python(progress: Progress = silent) -> Path:
    """Return the Python interpreter that has the tools as modules; all labs of this user share its environment.

    The environment is made when missing. Raises ToolsNotInstalled.
    """
    # A virtual environment is bound to the interpreter that made it.
    key = hashlib.sha256(LOCK.read_bytes() + f"{sys.base_prefix} {sys.version}".encode()).hexdigest()[:16]
    directory = cache_dir() / f"tools-{key}"
    python, complete = directory / "bin" / "python", directory / "complete"
    if complete.exists() and python.exists():
        return python
    async with exclusive_lock(
        directory.with_suffix(".lock"), seconds=_WAIT_SECONDS, what="the installation", progress=progress
    ):
        if not (complete.exists() and python.exists()):
            progress("installing the AWS emulator, the OIDC provider and a generator of clients (once)")
            shutil.rmtree(directory, ignore_errors=True)
            await _uv("venv", "--quiet", "--python", sys.executable, str(directory))
            await _uv("pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(LOCK))
            complete.touch()
    return python


async def tools_or_container(progress: Progress) -> Path | None:
    """Return the interpreter with the tools, or None if they cannot be installed but a container engine answers.

    Raises ToolsNotInstalled if neither is possible.
    """
    try:
        return await tools_python(progress)
    except ToolsNotInstalled:
        if not await engine_answers():
            raise
        return None


async def _uv(*arguments: str) -> None:
    log = cache_dir() / "tools.log"
    # Run outside this repository, whose uv settings must not apply to the tools.
    uv = await run("uv", [find_uv_bin(), *arguments], log=log, cwd=cache_dir())
    if uv.exit_code != 0:
        raise ToolsNotInstalled(
            f"uv {arguments[0]} ended with exit code {uv.exit_code} (full log: {log}):\n{uv.tail()}\n"
            "The installation needs access to the package index that pip and uv are configured for."
        )
