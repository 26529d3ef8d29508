"""A process of the lab: in its own session, its output in one log, never outliving whoever started it."""

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
    """A process ended while somebody waited for it; the text carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Register:
    """Told of every process that is started (not `run`) within `registered`.

    `environment` is added to each of them, so that they and what they leave behind can be found again.
    """

    record: Callable[["Process"], None]
    environment: Mapping[str, str]


_register: ContextVar[Register | None] = ContextVar("register", default=None)


@contextmanager
def registered(register: Register) -> Iterator[None]:
    """Tell `register` of each process that this task starts inside the block, and of each later `again`."""
    token = _register.set(register)
    try:
        yield
    finally:
        _register.reset(token)


def mark() -> Mapping[str, str]:
    """What the register, if there is one, adds to the environment of each process."""
    register = _register.get()
    return register.environment if register else {}


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str]
    cwd: Path | None
    register: Register | None
    recorded: bool = True

    def run(self) -> "Process":
        self.log.parent.mkdir(parents=True, exist_ok=True)
        inherited = self.register.environment if self.register else {}
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
        if self.register and self.recorded:
            self.register.record(process)
        return process


class Process:
    """A running command, leader of its own session. Not bound to an event loop: any loop may wait for it.

    The kernel kills it (SIGKILL) when the *thread* that started it ends, for whatever reason. A program that
    changes its user id loses that bond; start such a one already as the right user.
    """

    def __init__(self, command: _Command, popen: "subprocess.Popen[bytes]", log_offset: int) -> None:
        self._command = command
        self._popen = popen
        self._log_offset = log_offset

    @property
    def name(self) -> str:
        """What the lab calls it."""
        return self._command.name

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its session and process group."""
        return self._popen.pid

    @property
    def log(self) -> Path:
        """Where its standard output and standard error go."""
        return self._command.log

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -N when it was ended by signal N."""
        return self._popen.poll()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines that this run wrote to the log."""
        with self.log.open("rb") as log:
            log.seek(self._log_offset)
            return b"\n".join(log.read().splitlines()[-lines:]).decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL it; nothing when it has already ended. It is gone after `wait`."""
        self._popen.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing when it has already ended."""
        self._popen.send_signal(number)

    async def stop(self, grace_seconds: float = 5.0) -> int:
        """SIGTERM it, SIGKILL it when the grace time is over, and return its exit code (-N: by signal N)."""
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
        # Not reaped yet, so the pid still means this process: only this Popen waits for it.
        pidfd = os.pidfd_open(self.pid)
        try:
            loop.add_reader(pidfd, ended.set)
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        return self._popen.wait()

    async def again(self) -> "Process":
        """Start the same command once more, with the same log and register; the old one must have ended."""
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
    """Start a command in a session of its own; standard input is empty, all output is appended to `log`.

    `env` is added to the environment of this process. Secrets belong there or in files, never into `argv`.
    It needs `setpriv` (util-linux) and raises FileNotFoundError without it; a program that does not exist
    shows as exit code 127.
    """
    command = _Command(name, tuple(argv), log, dict(env or {}), cwd, _register.get())
    return command.run()


async def run(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Run a command to its end; see `start`. It is ended when this task is cancelled."""
    process = _Command(name, tuple(argv), log, dict(env or {}), cwd, _register.get(), recorded=False).run()
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
    """Ask `condition` every `every` seconds and return its first truthy answer.

    Raises TimeoutError naming `what` after `seconds`, and ProcessDied as soon as `process` has ended.
    What `condition` raises goes through.
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
                        f"{process.name} ended with {code} while waiting for {what}; "
                        f"the end of {process.log}:\n{process.tail()}"
                    )
                await asyncio.sleep(every)
    except TimeoutError as error:
        if time.monotonic() - started < seconds:
            raise
        hint = f"; see {process.log}" if process else ""
        raise TimeoutError(f"{what}: not within {seconds:g} s{hint}") from error
