"""The folder of a lab: its state and logs, and whose it is at the moment."""

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
    """A second lab was to be started in the folder of a running one."""


class Summary(BaseModel):
    """What a user of a running lab wants to know."""

    model_config = ConfigDict(frozen=True)

    addresses: dict[str, str]
    """By what is there."""
    health: dict[str, str] = {}
    """The base URL of `/livez`, `/readyz` and `/metrics` of each service."""
    logins: dict[str, Path] = {}
    """The file with the password, by email."""
    cookies: Path | None = None
    """A cookie file of curl, of somebody who is logged in."""


class Home:
    """A lab's folder. It may be claimed by one process at a time; the claim ends with the process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory.resolve()
        self.state = self.directory / "state"
        """What the next lab of this folder goes on with."""
        self.logs = self.directory / "logs"
        self.ledger = Ledger(self.directory)
        self._lock = self.directory / "lock"
        self._owner = self.directory / "owner.json"
        self._summary = self.directory / "summary.json"
        self._in_use = self.directory / "state-in-use"

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Be the lab of this folder. Raises LabIsUp."""
        descriptor = os.open(self._lock, _OPEN, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = self.owner()
                raise LabIsUp(
                    f"a lab is up in {self.directory}{f' (pid {owner.pid})' if owner else ''}. "
                    "End it with `lab down`, or give another folder with --dir."
                ) from None
            self._owner.write_text(Entry.of(os.getpid(), "lab", self.directory / "lab.log").model_dump_json())
            self._summary.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._owner.unlink()
        finally:
            os.close(descriptor)

    @contextmanager
    def using_state(self) -> Iterator[Callable[[], None]]:
        """Go on with the state of the last lab, or begin anew where that did not come to its orderly end.

        Each part keeps its state in its own way, some only when it ends: after a kill, or a start that failed, they
        do not fit together any more. What was there is then kept aside as `state-before`, for whoever looks for the
        reason. The function that is given must be called when everything has started.
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

    def forget(self) -> None:
        """Remove the state and the logs of the last lab."""
        for folder in (self.state, self.logs):
            shutil.rmtree(folder, ignore_errors=True)

    def owner(self) -> Entry | None:
        """The process that is this lab, if one is."""
        entry = self.last_owner()
        return entry if entry and entry.running else None

    def last_owner(self) -> Entry | None:
        """The process that is this lab, or was it until it was killed."""
        try:
            return Entry.model_validate_json(self._owner.read_bytes())
        except FileNotFoundError:
            return None

    @property
    def summary(self) -> Summary | None:
        """Of the lab while it is up and has started everything."""
        try:
            return Summary.model_validate_json(self._summary.read_bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def telling(self, summary: Summary) -> Iterator[None]:
        """Show `summary` to others within the block."""
        self._summary.write_text(summary.model_dump_json(indent=2))
        try:
            yield
        finally:
            self._summary.unlink()
