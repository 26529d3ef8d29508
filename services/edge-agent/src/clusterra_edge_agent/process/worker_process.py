"""A process that outlives the one that started it, and that a later one can find again."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

_HELD = 'read -r go && exec "$@" </dev/null'
"""The shell becomes the program (same pid, same start) once told to, and ends when nobody is left to tell it."""
_STAT_STATE = 0
_STAT_START = 19


class ProcessIdentity(BaseModel):
    """One process for good: a pid is used again, its start in clock ticks since this boot is not."""

    model_config = ConfigDict(frozen=True)

    pid: int
    start_ticks: int
    boot_id: str


class WorkerProcess:
    """The leader of a session of its own, made by `start_held` or `find`.

    It is watched by a pidfd, so nothing is polled, and neither closing this object nor the end of the event loop
    touches the process. (A Popen or an asyncio transport would complain, or kill it.)
    """

    def __init__(self, pidfd: int, identity: ProcessIdentity, opener: int | None = None) -> None:
        self._pidfd = pidfd
        self._opener = opener
        self._watched: asyncio.AbstractEventLoop | None = None
        self.identity = identity

    @classmethod
    def start_held(cls, argv: Sequence[str], output: Path, environment: Mapping[str, str]) -> Self:
        """Start a process that runs `argv` after `release`, and never when this process ends before that.

        So whoever writes its identity down in between can neither lose a running program nor start a second one.
        Standard output and error are appended to `output`. Raises OSError.
        """
        gate, opener = os.pipe()
        try:
            pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _HELD, "worker", *argv],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, gate, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        except BaseException:
            os.close(opener)
            raise
        finally:
            os.close(gate)
        try:
            # Our own child: nobody but `reap` waits for it, so until then its pid means it.
            identity = ProcessIdentity(pid=pid, start_ticks=_start_ticks(pid), boot_id=_boot_id())
            return cls(os.pidfd_open(pid), identity, opener)
        except BaseException:
            os.close(opener)
            os.waitpid(pid, 0)
            raise

    @classmethod
    def find(cls, identity: ProcessIdentity) -> Self | None:
        """The process of this identity, None when it has ended."""
        if identity.boot_id != _boot_id():
            return None
        try:
            pidfd = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return None
        # Looked up after the pidfd was taken: from then on the two mean the same process.
        try:
            if _start_ticks(identity.pid) == identity.start_ticks:
                return cls(pidfd, identity)
        except ProcessLookupError:
            pass
        os.close(pidfd)
        return None

    def release(self) -> None:
        """Let a held process run its program; one that was killed meanwhile shows by its exit."""
        if self._opener is not None:
            with suppress(BrokenPipeError):
                os.write(self._opener, b"go\n")
            os.close(self._opener)
            self._opener = None

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call back once on the running event loop when the process has ended."""
        self._watched = asyncio.get_running_loop()
        self._watched.add_reader(self._pidfd, self._ended, callback)

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole process group: not every launcher that waits for its program passes signals on."""
        try:
            os.killpg(self.identity.pid, number)
        except ProcessLookupError:
            return

    def reap(self) -> int | None:
        """The exit code of an ended process (-N: by signal N), None when it is not our child."""
        try:
            _, status = os.waitpid(self.identity.pid, 0)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Watch it no longer. A held process ends, any other goes on."""
        if self._watched is not None:
            self._watched.remove_reader(self._pidfd)
            self._watched = None
        if self._opener is not None:
            os.close(self._opener)
            self._opener = None
        os.close(self._pidfd)

    def _ended(self, callback: Callable[[], None]) -> None:
        if self._watched is not None:
            self._watched.remove_reader(self._pidfd)
            self._watched = None
        callback()


def _start_ticks(pid: int) -> int:
    """When a process started. Raises ProcessLookupError when it has ended, or is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    # The command's name in parentheses may hold spaces and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    if fields[_STAT_STATE] in "ZX":
        raise ProcessLookupError(pid)
    return int(fields[_STAT_START])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
