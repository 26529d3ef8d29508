"""A process that outlives the process that started it, and that a later process can find again."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

_HELD = 'read -r go && exec "$@" </dev/null'
"""The shell becomes the program (same pid and start time) once it reads a line; it exits on end of file."""
_STAT_STATE = 0
_STAT_START = 19


class ProcessIdentity(BaseModel):
    """Identifies one process for good: a pid may be reused, but not with the same start time (in ticks since boot)."""

    model_config = ConfigDict(frozen=True)

    pid: int
    start_ticks: int
    boot_id: str


class WorkerProcess:
    """The leader of its own session, created by `start_held` or `find`.

    A pidfd watches it, so nothing is polled, and neither closing this object nor the end of the event loop affects the
    process. (A Popen or an asyncio transport would warn about it or kill it.)
    """

    def __init__(self, pidfd: int, identity: ProcessIdentity, opener: int | None = None) -> None:
        self._pidfd = pidfd
        self._opener = opener
        self._watched: asyncio.AbstractEventLoop | None = None
        self.identity = identity

    @classmethod
    def start_held(cls, argv: Sequence[str], output: Path, environment: Mapping[str, str]) -> Self:
        """Starts a process that waits, and runs `argv` after `release`. If the agent ends before, it never runs `argv`.

        The caller stores the process identity in between. So it can neither lose a running program nor start a second
        one. Standard output and error are appended to `output`. Raises OSError.
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
            # It is our own child, and only `reap` waits for it: until then its pid cannot be reused.
            identity = ProcessIdentity(pid=pid, start_ticks=_start_ticks(pid), boot_id=_boot_id())
            return cls(os.pidfd_open(pid), identity, opener)
        except BaseException:
            os.close(opener)
            os.waitpid(pid, 0)
            raise

    @classmethod
    def find(cls, identity: ProcessIdentity) -> Self | None:
        """Returns the process of this identity, or None when it has ended."""
        if identity.boot_id != _boot_id():
            return None
        try:
            pidfd = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return None
        # Read after the pidfd was opened: from then on both mean the same process.
        try:
            if _start_ticks(identity.pid) == identity.start_ticks:
                return cls(pidfd, identity)
        except ProcessLookupError:
            pass
        os.close(pidfd)
        return None

    def release(self) -> None:
        """Lets a held process run its program. A process that was killed in the meantime shows in its exit."""
        if self._opener is not None:
            with suppress(BrokenPipeError):
                os.write(self._opener, b"go\n")
            os.close(self._opener)
            self._opener = None

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, on the running event loop, when the process has ended."""
        self._watched = asyncio.get_running_loop()
        self._watched.add_reader(self._pidfd, self._ended, callback)

    def signal(self, number: signal.Signals) -> None:
        """Signals the whole process group, because some launchers wait for their program without forwarding signals."""
        try:
            os.killpg(self.identity.pid, number)
        except ProcessLookupError:
            return

    def reap(self) -> int | None:
        """Returns the exit code of an ended process (-N: killed by signal N), or None when it is not our child."""
        try:
            _, status = os.waitpid(self.identity.pid, 0)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Stops watching the process. A held process then exits; any other keeps running."""
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
    """Returns the start time of a process, in clock ticks. Raises ProcessLookupError when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    # The command name in parentheses may itself contain spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    if fields[_STAT_STATE] in "ZX":
        raise ProcessLookupError(pid)
    return int(fields[_STAT_START])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
