"""Runs one command of the build of the Kubernetes programs, with a log."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run


class BinariesNotBuilt(LabProblem):
    """Kubernetes programs are missing and cannot be built on this machine; the text says what to do."""


async def step(
    argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None, hint: str = ""
) -> None:
    """Run one command to its end at low priority. Raises BinariesNotBuilt with the end of its output and `hint`."""
    process = await run(argv[0], ["nice", "-n", "10", *argv], log=log, cwd=cwd, env=env)
    if process.exit_code != 0:
        raise BinariesNotBuilt(
            f"{' '.join(argv[:2])} ended with exit code {process.exit_code} (full log: {log}):\n"
            f"{process.tail()}\n{hint}"
        )
