"""What the start of a command imports: only what it needs."""

import subprocess
import sys

import pytest

SLOW = ("httpx2", "rich", "textual", "keyring", "platformdirs", "asyncio")


def imported(*arguments: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "clusterra_cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}


def test_help_imports_nothing_slow() -> None:
    found = imported("--help")

    assert "typer" in found
    assert not found & {*SLOW, "pydantic", "importlib.metadata"}


@pytest.mark.parametrize("arguments", [("jobs", "--help"), ("login", "--help"), ("run", "--dry-run", "true")])
def test_what_asks_no_gateway_needs_no_client(arguments: tuple[str, ...]) -> None:
    """Typer itself reads options with pydantic."""
    assert not imported(*arguments) & set(SLOW)
