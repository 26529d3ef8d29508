"""Runs the real `clusterra` as a process, with a configuration of its own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The answer as JSON."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The answer as lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class CommandLine:
    """The command of somebody. `variables` are those of its environment, besides PATH and HOME."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def having(self, **variables: str) -> "CommandLine":
        """The same with other variables."""
        return CommandLine(self.home, self.variables | variables)

    async def start(self, *arguments: str) -> Process:
        """Start a command, whose stdin and outputs are pipes."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLUSTERRA_CONFIG": str(self.home / "config.toml"),
            # No test reaches the keyring of whoever runs it.
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "PYTHONWARNINGS": "error",
            **self.variables,
        }
        command = (sys.executable, "-m", "clusterra_cli", *arguments)
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, cwd=self.home
        )

    async def __call__(self, *arguments: str, stdin: str = "") -> Ran:
        """Run a command to its end."""
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                out, err = await process.communicate(stdin.encode())
        except BaseException:
            process.kill()
            await process.wait()
            raise
        return Ran(process.returncode or 0, out.decode(), err.decode())
