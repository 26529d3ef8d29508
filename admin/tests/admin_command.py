"""Runs `clusterra-admin` as operators do, with settings in its environment: in this process, or in one of its own."""

import asyncio
import io
import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
import structlog
from clusterra_admin.cli import command

_SECONDS = 60
_ALONE = threading.Lock()
"""The environment and the output are those of the whole process, so one command runs at a time."""


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
    """Run a command to its end, in a thread with an event loop of its own: a process takes a second to import it.

    Fails the test unless it ends with the expected exit code. `admin_process` runs the same as a process.
    """
    async with asyncio.timeout(_SECONDS):
        answer = await asyncio.to_thread(_run, arguments, environment or {})
    assert answer.code == code, answer
    return answer


async def admin_process(*arguments: str, environment: Mapping[str, str] | None = None, code: int = 0) -> Answer:
    """Run a command to its end as a process. Fails the test unless it ends with the expected exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "clusterra_admin",
        *arguments,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(_SECONDS):
        out, err = await process.communicate()
    answer = Answer(process.returncode or 0, out.decode(), err.decode())
    assert answer.code == code, answer
    return answer


def _run(arguments: tuple[str, ...], environment: Mapping[str, str]) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with _ALONE, pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            command(list(arguments), prog_name="clusterra-admin")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except Exception:
            traceback.print_exc()
            code = 1
        finally:
            structlog.reset_defaults()  # what the command logs goes into its own output only
    return Answer(code, out.getvalue(), err.getvalue())
