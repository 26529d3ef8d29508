"""Programs that cannot share our virtual environment, in one of their own, from `lab/tools.lock`, kept in the cache."""

import hashlib
import shutil
import sys
from pathlib import Path

from uv import find_uv_bin

from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.file_lock import alone
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run
from clusterra_lab.machine.progress import Progress, silent

LOCK = Path(__file__).parents[3] / "tools.lock"
_WAIT_SECONDS = 600.0


class ToolsNotInstalled(LabProblem):
    """uv could not install the tools; the text carries what it said."""


async def tools_python(progress: Progress = silent) -> Path:
    """The Python that has the tools: run them as its modules. Made when missing, once for all labs of this user.

    Raises ToolsNotInstalled.
    """
    # A venv is bound to the interpreter that it was made from.
    key = hashlib.sha256(LOCK.read_bytes() + f"{sys.base_prefix} {sys.version}".encode()).hexdigest()[:16]
    directory = cache_dir() / f"tools-{key}"
    python, complete = directory / "bin" / "python", directory / "complete"
    if complete.exists() and python.exists():
        return python
    async with alone(directory.with_suffix(".lock"), seconds=_WAIT_SECONDS, what="the installation", progress=progress):
        if not (complete.exists() and python.exists()):
            progress("the AWS emulator and the OIDC provider into a virtual environment of their own (once)")
            shutil.rmtree(directory, ignore_errors=True)
            await _uv("venv", "--quiet", "--python", sys.executable, str(directory))
            await _uv("pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(LOCK))
            complete.touch()
    return python


async def tools_or_container(progress: Progress) -> Path | None:
    """The Python that has the tools; None where they cannot be installed but a container engine answers.

    Raises ToolsNotInstalled where there is neither.
    """
    try:
        return await tools_python(progress)
    except ToolsNotInstalled:
        if not await engine_answers():
            raise
        return None


async def _uv(*arguments: str) -> None:
    log = cache_dir() / "tools.log"
    # Not in this repository: its own settings of uv are not meant for the tools.
    uv = await run("uv", [find_uv_bin(), *arguments], log=log, cwd=cache_dir())
    if uv.exit_code != 0:
        raise ToolsNotInstalled(
            f"uv {arguments[0]} ended with {uv.exit_code} (all of it is in {log}):\n{uv.tail()}\n"
            "It needs the package index that pip and uv are configured for."
        )
