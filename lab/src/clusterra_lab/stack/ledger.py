"""The record of a lab's processes on disk, which `lab status`, `lab logs` and `lab down` use even after a crash."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from clusterra_lab.machine.process import Process, Recorder, recorded_by

MARK = "CLUSTERRA_LAB"
"""Environment variable of all processes of a lab and of their descendants; its value is the lab's folder."""


class Entry(BaseModel):
    """A process at the time of its start."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    started: int
    """Kernel ticks from boot to its start; with the pid this names one process, never a later one with that pid."""
    log: Path

    @classmethod
    def of(cls, pid: int, name: str, log: Path) -> Self:
        """Describe this process or a child that has not been waited for. Raises ValueError if there is no process."""
        stat = _stat(pid)
        if stat is None:
            raise ValueError(f"there is no process {pid}")
        return cls(name=name, pid=pid, started=stat[0], log=log.resolve())

    @property
    def running(self) -> bool:
        """Whether this very process is still running; a zombie is not."""
        now = _stat(self.pid)
        return now is not None and now == (self.started, True)


_entries = TypeAdapter(tuple[Entry, ...])


class Ledger:
    """The entries of one lab: the last one of each name, and earlier ones while they run. It has a single writer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "processes.json"

    def entries(self) -> tuple[Entry, ...]:
        """The entries in start order."""
        try:
            return _entries.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return ()

    def record(self, process: Process) -> None:
        """Add a process that has just started and has not been waited for."""
        entry = Entry.of(process.pid, process.name, process.log)
        kept = [known for known in self.entries() if known.name != entry.name or known.running]
        part = self._path.with_suffix(".part")
        part.write_bytes(_entries.dump_json((*kept, entry), indent=2))
        part.rename(self._path)

    def clear(self) -> None:
        """Remove all entries."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Record and mark all processes that start in the block, and all their later restarts."""
        with recorded_by(Recorder(self.record, {MARK: str(self._directory)})):
            yield


def _stat(pid: int) -> tuple[int, bool] | None:
    """Start time of a process in ticks, and whether it is alive rather than a zombie; None if there is no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # See proc_pid_stat(5): the second field is a name in parentheses and may have any characters.
    fields = stat[stat.rindex(")") + 2 :].split()
    return int(fields[19]), fields[0] not in ("Z", "X")


def marked(pid: int) -> str | None:
    """The folder of the lab that a process belongs to, by its environment; None if it belongs to none."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    prefix = f"{MARK}=".encode()
    for line in environment.split(b"\0"):
        if line.startswith(prefix):
            return os.fsdecode(line[len(prefix) :])
    return None
