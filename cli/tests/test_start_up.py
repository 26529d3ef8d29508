"""What the start of a command imports: only what it needs."""

import asyncio
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from command_line import CommandLine
from gateway_world import World

SLOW = ("httpx2", "rich", "textual", "keyring", "platformdirs", "asyncio")
NEVER = {"asyncio", "keyring", "textual", "pygments", "markdown_it", "rich.markdown", "rich.syntax", "rich.progress"}
"""What a list of jobs does not need, where the environment has the token."""


def modules(printed: str) -> set[str]:
    """The modules of what `-X importtime` prints."""
    return {line.rpartition("|")[2].strip() for line in printed.splitlines() if line.startswith("import time:")}


def imported(*arguments: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "clusterra_cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return modules(ran.stderr)


async def imported_by(person: CommandLine, home: Path, *arguments: str) -> set[str]:
    """What a module that is run imports until it has its answer from a gateway."""
    environment = {"PATH": "/usr/bin:/bin", "CLUSTERRA_CONFIG": str(home / "none.toml"), **person.variables}
    command = (sys.executable, "-X", "importtime", "-m", *arguments)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
    _, printed = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return modules(printed.decode())


def test_help_imports_nothing_slow() -> None:
    found = imported("--help")

    assert "typer" in found
    assert not found & {*SLOW, "pydantic", "importlib.metadata"}


@pytest.mark.parametrize(
    "arguments", [("jobs", "--help"), ("login", "--help"), ("run", "--dry-run", "true"), ("advise", "--help")]
)
def test_what_asks_no_gateway_needs_no_client(arguments: tuple[str, ...]) -> None:
    """Typer itself reads options with pydantic."""
    assert not imported(*arguments) & set(SLOW)


async def test_a_list_of_jobs_imports_what_a_table_and_a_request_need(
    world: World, ada: CommandLine, tmp_path: Path
) -> None:
    found = await imported_by(ada, tmp_path, "clusterra_cli", "jobs")
    ids_only = await imported_by(ada, tmp_path, "clusterra_cli", "jobs", "--quiet")

    assert {"httpx2", "rich.table"} <= found
    assert not found & NEVER
    assert "rich.console" not in ids_only


async def test_slurms_commands_need_no_models_and_no_tables(world: World, ada: CommandLine, tmp_path: Path) -> None:
    found = await imported_by(ada, tmp_path, "clusterra_cli", "clusters")
    slurms = await imported_by(ada, tmp_path, "clusterra_cli.slurm_commands", "squeue", "--version")

    assert "pydantic" in found
    assert not slurms & {*NEVER, "httpx2", "pydantic", "typer", "rich"}
