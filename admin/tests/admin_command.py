"""Runs `clusterra-admin` as operators do: as a process, with settings in its environment."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


async def admin(*arguments: str, environment: Mapping[str, str] | None = None, code: int = 0) -> Answer:
    """Run a command to its end. Fails the test unless it ends with the expected exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "clusterra_admin",
        *arguments,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    answer = Answer(process.returncode or 0, out.decode(), err.decode())
    assert answer.code == code, answer
    return answer
