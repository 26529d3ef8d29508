"""The daemons of a Slurm control plane, each a process of this machine inside the cluster's namespaces."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.namespace import PATH

DaemonName = Literal["mariadbd", "slurmdbd", "slurmctld", "slurmrestd"]

READY_SECONDS = 180.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Daemon:
    """A daemon: its command line, its user in the cluster (a uid where it needs no account), its readiness check."""

    name: DaemonName
    argv: Sequence[str]
    user: str
    ready: Callable[[], Awaitable[bool]]
    environment: Sequence[str] = ()
    prepare: Callable[[], None] | None = None
    """Called before each start."""
    settle: Callable[[], Awaitable[None]] | None = None
    """Called after each start, once the daemon is ready."""

    def command(self, launcher: Sequence[str]) -> list[str]:
        """The whole command line. The daemon gets nothing of this process's environment, and dies with its launcher."""
        groups = "--clear-groups" if self.user.isdecimal() else "--init-groups"
        return [
            *(*launcher, "setpriv", f"--reuid={self.user}", f"--regid={self.user}", groups, "--pdeathsig=KILL"),
            *("env", "--ignore-environment", f"PATH={PATH}", *self.environment, *self.argv),
        ]


class RunningDaemon:
    """A daemon that can be killed, stopped and started again; it keeps its port."""

    def __init__(self, daemon: Daemon, process: Process) -> None:
        self._daemon = daemon
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self._process.alive

    def processes(self) -> list[psutil.Process]:
        """The daemon's processes, without its launcher; an empty list when it does not run."""
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """It is stopped (SIGSTOP): it takes requests, and carries them out at the end of the block."""
        daemons = self.processes()
        for daemon in daemons:
            daemon.suspend()
        try:
            yield
        finally:
            for daemon in daemons:
                daemon.resume()

    async def ready(self) -> None:
        """Wait until it is ready. Raises ProcessDied with the end of its log, or TimeoutError."""
        daemon, process = self._daemon, self._process
        await until(daemon.ready, seconds=READY_SECONDS, what=f"{daemon.name} to be ready", every=0.05, process=process)
        if daemon.settle:
            await daemon.settle()

    async def kill(self) -> None:
        """Send SIGKILL and wait for its end."""
        daemons = self.processes()
        for daemon in daemons:
            # Kill the daemon, not its launcher: the launcher's end would not wait for the daemon's.
            with suppress(psutil.NoSuchProcess):
                daemon.kill()
        if not daemons:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """Send SIGTERM, as a shutdown of the machine does, and wait for its end."""
        await self._process.stop(_STOP_SECONDS)

    async def start(self) -> None:
        """Start it again after `kill` or `stop`, and wait until it is ready."""
        if self._daemon.prepare:
            self._daemon.prepare()
        self._process = await self._process.again()
        await self.ready()

    async def restart(self) -> None:
        """Stop it if it is running, start it, and wait until it is ready."""
        await self.stop()
        await self.start()


async def launch(daemon: Daemon, launcher: Sequence[str], logs: Path) -> RunningDaemon:
    """Start a daemon and wait until it is ready. Raises ProcessDied with the end of its log, or TimeoutError."""
    if daemon.prepare:
        daemon.prepare()
    process = await start(daemon.name, daemon.command(launcher), log=logs / f"{daemon.name}.log")
    running = RunningDaemon(daemon, process)
    try:
        await running.ready()
    except BaseException:
        await running.kill()
        raise
    return running


def listening(port: int) -> bool:
    """Whether a process listens on a TCP port of this machine. A test connection would leave an error in its log."""
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
        for connection in psutil.net_connections("tcp4")
    )
