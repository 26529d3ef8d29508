"""Runs processes of the lab: each in its own session, with one log, and never outliving the thread that started it."""

import asyncio
import inspect
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from clusterra_lab.machine.problem import LabProblem

_TAIL_LINES = 20


class ProcessDied(LabProblem):
    """A process ended while the lab waited for it; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records every process that `start` starts within `recorded_by`.

    `environment` is added to the environment of each process, so that it and its descendants can be found later.
    """

    record: Callable[["Process"], None]
    environment: Mapping[str, str]


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recorded_by(recorder: Recorder) -> Iterator[None]:
    """Record each process that this task starts in the block, and each later `again` of such a process."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def mark() -> Mapping[str, str]:
    """The variables that the current recorder adds to each process; empty without a recorder."""
    recorder = _recorder.get()
    return recorder.environment if recorder else {}


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    cwd: Path | None
    recorder: Recorder | None
    recorded: bool = True

    def run(self) -> "Process":
        self.log.parent.mkdir(parents=True, exist_ok=True)
        inherited = self.recorder.environment if self.recorder else {}
        with self.log.open("ab") as output:
            offset = output.tell()
            popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env={**os.environ, **inherited, **self.environment},
                start_new_session=True,
            )
        process = Process(self, popen, offset)
        if self.recorder and self.recorded:
            self.recorder.record(process)
        return process


class Process:
    """A command that leads its own session. It is not bound to an event loop: any loop may wait for it.

    The kernel sends it SIGKILL when the *thread* that started it ends, for whatever reason. A program that changes its
    user id loses this protection, so start it as the right user.
    """

    def __init__(self, command: _Command, popen: "subprocess.Popen[bytes]", log_offset: int) -> None:
        self._command = command
        self._popen = popen
        self._log_offset = log_offset

    @property
    def name(self) -> str:
        """Its name in the lab."""
        return self._command.name

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its session and process group."""
        return self._popen.pid

    @property
    def log(self) -> Path:
        """The file that receives its standard output and standard error."""
        return self._command.log

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -N if signal N ended it."""
        return self._popen.poll()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines that this run wrote to the log."""
        with self.log.open("rb") as log:
            log.seek(self._log_offset)
            return b"\n".join(log.read().splitlines()[-lines:]).decode(errors="replace")

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended; `wait` for its end."""
        self._popen.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._popen.send_signal(number)

    async def stop(self, grace_seconds: float = 5.0) -> int:
        """Send SIGTERM, and SIGKILL after the grace time; returns the exit code (-N: ended by signal N)."""
        self._popen.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            self._popen.kill()
            return await self.wait()

    async def wait(self) -> int:
        """Wait for its end and return the exit code (-N: ended by signal N)."""
        if (code := self._popen.poll()) is not None:
            return code
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        # The pid still names this process: only this Popen reaps it, and has not done so yet.
        pidfd = os.pidfd_open(self.pid)
        try:
            loop.add_reader(pidfd, ended.set)
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        return self._popen.wait()

    async def again(self) -> "Process":
        """Start the same command again, with the same log and recorder; this process must have ended."""
        if self.alive:
            raise RuntimeError(f"{self.name} (pid {self.pid}) still runs: stop it before starting it again")
        return self._command.run()


async def start(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Start a command in its own session; its standard input is empty, and all its output is appended to `log`.

    The command gets the environment of this process and `env`. Put secrets there or into files, never into `argv`.
    Needs `setpriv` (util-linux) and raises FileNotFoundError without it. A program that does not exist ends with exit
    code 127.
    """
    command = _Command(name, tuple(argv), log, dict(env or {}), cwd, _recorder.get())
    return command.run()


async def run(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Run a command to its end; see `start`. It is stopped when this task is cancelled."""
    process = _Command(name, tuple(argv), log, dict(env or {}), cwd, _recorder.get(), recorded=False).run()
    try:
        await process.wait()
    finally:
        await process.stop()
    return process


@overload
async def until[T](
    condition: Callable[[], Awaitable[T | None]],
    *,
    seconds: float,
    what: str,
    every: float = ...,
    process: Process | None = ...,
) -> T: ...
@overload
async def until[T](
    condition: Callable[[], T | None],
    *,
    seconds: float,
    what: str,
    every: float = ...,
    process: Process | None = ...,
) -> T: ...
async def until[T](
    condition: Callable[[], Awaitable[T | None] | T | None],
    *,
    seconds: float,
    what: str,
    every: float = 0.02,
    process: Process | None = None,
) -> T:
    """Call `condition` every `every` seconds and return its first truthy result.

    Raises TimeoutError with `what` after `seconds`, and ProcessDied once `process` has ended. Errors of `condition` are
    passed on.
    """
    started = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            while True:
                answer = condition()
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer:
                    return answer
                if process is not None and not process.alive:
                    code = await process.wait()
                    raise ProcessDied(
                        f"{process.name} ended with exit code {code} while waiting for {what}; "
                        f"the end of {process.log}:\n{process.tail()}"
                    )
                await asyncio.sleep(every)
    except TimeoutError as error:
        if time.monotonic() - started < seconds:
            raise
        hint = f"; see {process.log}" if process else ""
        raise TimeoutError(f"{what}: not within {seconds:g} s{hint}") from error
