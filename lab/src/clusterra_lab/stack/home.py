"""The folder of a lab: its state, its logs, and the process that owns it now."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.stack.ledger import Entry, Ledger

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class LabIsUp(LabProblem):
    """A lab is already running in the folder."""


class Summary(BaseModel):
    """Addresses and logins of a running lab, for its users."""

    model_config = ConfigDict(frozen=True)

    addresses: dict[str, str]
    """Name -> address of each part."""
    health: dict[str, str] = {}
    """Service -> base URL of its `/livez`, `/readyz` and `/metrics`."""
    logins: dict[str, Path] = {}
    """Email address -> file with the password."""
    cookies: Path | None = None
    """A cookie file for curl, of a logged-in session."""


class Home:
    """A lab's folder. One process at a time can lock it; the lock ends with the process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory.resolve()
        self.state = self.directory / "state"
        """State that the next lab of this folder continues with."""
        self.logs = self.directory / "logs"
        self.ledger = Ledger(self.directory)
        self._lock = self.directory / "lock"
        self._owner = self.directory / "owner.json"
        self._summary = self.directory / "summary.json"
        self._in_use = self.directory / "state-in-use"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Own this folder until the block ends. Raises LabIsUp."""
        descriptor = os.open(self._lock, _OPEN, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = self.owner()
                raise LabIsUp(
                    f"a lab is already running in {self.directory}{f' (pid {owner.pid})' if owner else ''}. "
                    "Stop it with `make down`, or start another one with `.venv/bin/lab up --dir FOLDER`."
                ) from None
            self._owner.write_text(Entry.of(os.getpid(), "lab", self.directory / "lab.log").model_dump_json())
            self._summary.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._owner.unlink()
        finally:
            os.close(descriptor)

    def is_locked(self) -> bool:
        """Whether some process owns this folder, also one that was killed and has not ended yet."""
        descriptor = os.open(self._lock, _OPEN, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @contextmanager
    def using_state(self) -> Iterator[Callable[[], None]]:
        """Continue with the state of the last lab if that ended in order, otherwise start with an empty state.

        Each part saves its state in its own way, some only when they stop. After a kill or a failed start the saved
        states do not match, so the folder is moved to `state-before` for diagnosis. The caller must call the yielded
        function once everything has started.
        """
        if self._in_use.exists() and self.state.exists():
            before = self.directory / "state-before"
            shutil.rmtree(before, ignore_errors=True)
            self.state.rename(before)
        self.state.mkdir(exist_ok=True)
        self._in_use.touch()
        all_started = False

        def started() -> None:
            nonlocal all_started
            all_started = True

        try:
            yield started
        finally:
            if all_started:
                self._in_use.unlink()

    def discard(self) -> None:
        """Remove the state and the logs of the last lab."""
        for folder in (self.state, self.logs):
            shutil.rmtree(folder, ignore_errors=True)

    def owner(self) -> Entry | None:
        """The process that runs this lab now, if any."""
        entry = self.last_owner()
        return entry if entry and entry.running else None

    def last_owner(self) -> Entry | None:
        """The process that runs this lab, or that ran it until it was killed."""
        try:
            return Entry.model_validate_json(self._owner.read_bytes())
        except FileNotFoundError:
            return None

    @property
    def summary(self) -> Summary | None:
        """The summary of the lab; None unless everything has started."""
        try:
            return Summary.model_validate_json(self._summary.read_bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def publish_summary(self, summary: Summary) -> Iterator[None]:
        """Let other processes read `summary` until the block ends."""
        self._summary.write_text(summary.model_dump_json(indent=2))
        try:
            yield
        finally:
            self._summary.unlink()
