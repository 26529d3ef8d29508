"""The processes of a lab, on disk: what `lab status`, `lab logs` and `lab down` know after whatever happened."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from clusterra_lab.machine.process import Process, Register, registered

MARK = "CLUSTERRA_LAB"
"""In the environment of everything that a lab starts, and of what that starts in turn: the lab's folder."""


class Entry(BaseModel):
    """A process as it was when it was started."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    started: int
    """Kernel ticks between the boot and its start; with the pid it names one process, never a later one."""
    log: Path

    @classmethod
    def of(cls, pid: int, name: str, log: Path) -> Self:
        """Describe a process that is ours or a child that nobody has waited for, so that it is surely there."""
        stat = _stat(pid)
        if stat is None:
            raise ValueError(f"there is no process {pid}")
        return cls(name=name, pid=pid, started=stat[0], log=log.resolve())

    @property
    def running(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        now = _stat(self.pid)
        return now is not None and now == (self.started, True)


_entries = TypeAdapter(tuple[Entry, ...])


class Ledger:
    """Entries of one lab, one writer; for each name the last one, and earlier ones as long as they run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "processes.json"

    def entries(self) -> tuple[Entry, ...]:
        """In the order of their start."""
        try:
            return _entries.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return ()

    def record(self, process: Process) -> None:
        """Add a process that has just been started and not been waited for."""
        entry = Entry.of(process.pid, process.name, process.log)
        kept = [known for known in self.entries() if known.name != entry.name or known.running]
        part = self._path.with_suffix(".part")
        part.write_bytes(_entries.dump_json((*kept, entry), indent=2))
        part.rename(self._path)

    def clear(self) -> None:
        """Forget all."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Record, and mark, everything that is started within the block, and all later restarts of it."""
        with registered(Register(self.record, {MARK: str(self._directory)})):
            yield


def _stat(pid: int) -> tuple[int, bool] | None:
    """When a process was started, and whether it is more than a zombie; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc_pid_stat(5); the second field is a free name in parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    return int(fields[19]), fields[0] not in ("Z", "X")


def marked(pid: int) -> str | None:
    """The folder of the lab that a process belongs to by its environment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    prefix = f"{MARK}=".encode()
    for line in environment.split(b"\0"):
        if line.startswith(prefix):
            return os.fsdecode(line[len(prefix) :])
    return None
