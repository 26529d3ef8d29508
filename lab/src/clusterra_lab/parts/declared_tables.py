"""The tables of all services, as an operator makes them: by `clusterra-admin tables apply`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run

_ADMIN = (sys.executable, "-m", "clusterra_admin", "tables")


class TablesNotMade(LabProblem):
    """`clusterra-admin tables` failed; the text has the end of its log."""


async def declare_tables(environment: Mapping[str, str], directory: Path) -> None:
    """Create the tables for services with this environment. Raises TablesNotMade."""
    await _run(("apply",), environment, directory / "tables.log")


async def table_policy(service: str, environment: Mapping[str, str], directory: Path) -> dict[str, Any]:
    """The IAM policy of a service with this environment. Raises TablesNotMade."""
    log = directory / f"policy-{service}.json"
    log.unlink(missing_ok=True)
    await _run(("policy", "--service", service), environment, log)
    policy: dict[str, Any] = json.loads(log.read_text())
    return policy


async def _run(arguments: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
    process = await run("tables", [*_ADMIN, *arguments], log=log, env=environment)
    if process.exit_code != 0:
        raise TablesNotMade(f"clusterra-admin tables {arguments[0]} failed: {process.tail()}")
