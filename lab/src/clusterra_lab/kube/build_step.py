"""One step of making the programs of Kubernetes: a command with a log."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run


class BinariesNotBuilt(LabProblem):
    """Programs of Kubernetes are missing and cannot be made here; the text says what to do."""


async def step(
    argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None, hint: str = ""
) -> None:
    """Run one command to its end, with little priority. Raises BinariesNotBuilt with the end of what it said."""
    process = await run(argv[0], ["nice", "-n", "10", *argv], log=log, cwd=cwd, env=env)
    if process.exit_code != 0:
        raise BinariesNotBuilt(
            f"{' '.join(argv[:2])} ended with {process.exit_code} (all of it is in {log}):\n{process.tail()}\n{hint}"
        )
