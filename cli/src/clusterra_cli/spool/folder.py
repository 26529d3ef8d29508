"""The folder of the spool, which only its owner can read: submits that wait, that were refused, and that were sent.

A file is written whole, synced, and then renamed atomically. Nothing here follows a link, and no name of a file is more
than a number and a key.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from clusterra.context import ConfigError, path, write_privately

from clusterra_cli.spool.record import MAX_RECORD_BYTES, BadRecord, SpooledSubmit, read, written

type State = Literal["waiting", "refused", "sent", "bad"]
STATES: tuple[State, ...] = ("waiting", "refused", "sent", "bad")
MAX_SUBMITS = 10_000
"""The most submits that wait or were refused."""
MAX_BYTES = 256 * 1024 * 1024
"""The most bytes of these."""
KEPT_SENT = 1000
"""The submits that were sent whose job ids are kept: the newest."""
LOCK_SECONDS = 30.0
SECRET_BYTES = 32
_NAME = re.compile(r"([0-9]{12})-([0-9a-f]{32})\.json")
_POLL_SECONDS = 0.05
_NO_FILE = (errno.ELOOP, errno.ENXIO)
"""What opening a link and a socket ends with: these are no files of ours. Other errors may pass."""


class SpoolError(ConfigError):
    """The spool cannot be used. The text says why, and names the place."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the spool, whose number gives the order."""

    state: State
    number: int
    key: str

    @property
    def id(self) -> str:
        """How people name it, such as `s12`."""
        return f"s{self.number}"

    @property
    def file_name(self) -> str:
        """Its name in the folder of its state."""
        return f"{self.number:012}-{self.key}.json"


class Spool:
    """The spool of the person who runs this process."""

    def __init__(self, root: Path | None = None) -> None:
        """Use the spool beside the configuration. Makes nothing: see `exists`."""
        self.root = path().with_name("spool") if root is None else root
        self._secret: bytes | None = None

    @property
    def exists(self) -> bool:
        """Whether anything was ever spooled. Raises SpoolError."""
        with _spool_errors(self.root):
            return self.root.exists()

    @property
    def secret(self) -> bytes:
        """The key of the MACs. It is a file of its own beside the folder, made once. Raises SpoolError."""
        if self._secret is None:
            self._secret = _secret(self.root.with_name(f"{self.root.name}.key"))
        return self._secret

    def make(self) -> None:
        """Make the folders. Raises SpoolError where others could write there."""
        with _spool_errors(self.root):
            for place in (self.root, *(self.root / each for each in STATES)):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                require_private(place, os.lstat(place), is_folder=True)

    def entries(self, *states: State) -> list[Entry]:
        """The files in these states, in their order. Raises SpoolError."""
        found: list[Entry] = []
        with _spool_errors(self.root):
            try:
                for state in states:
                    require_private(self.root / state, os.lstat(self.root / state), is_folder=True)
                    names = (_NAME.fullmatch(each.name) for each in (self.root / state).iterdir())
                    found += (Entry(state, int(name[1]), name[2]) for name in names if name)
            except FileNotFoundError:
                return []
        return sorted(found, key=lambda each: (each.number, each.key))

    def add(self, submit: SpooledSubmit) -> Entry:
        """Keep a submit. When this returns, it is on the disk. Raises SpoolError, also where the spool is full."""
        self.make()
        try:
            content = written(submit, self.secret)
        except ValueError as error:
            raise SpoolError(str(error)) from None
        with self.locked("add"):
            kept = self.entries("waiting", "refused")
            size = sum(self._size(each) for each in kept) + len(content)
            if len(kept) >= MAX_SUBMITS or size > MAX_BYTES:
                raise SpoolError(f"the spool {self.root} is full: see `clusterra spool list`")
            last = max((each.number for each in self.entries(*STATES)), default=0)
            entry = Entry("waiting", last + 1, submit.key)
            try:
                self._write(entry, content)
            except ConfigError:
                # Whoever reads of a failure submits again: then there must be nothing to deliver.
                with suppress(SpoolError):
                    self.drop(entry)
                raise
        return entry

    def read(self, entry: Entry) -> SpooledSubmit:
        """The submit of a file. Raises BadRecord, FileNotFoundError, SpoolError."""
        submit = read(_content(self._path(entry), MAX_RECORD_BYTES), self.secret)
        if submit.key != entry.key:
            raise BadRecord("it has the name of another submit")
        return submit

    def change(self, entry: Entry, submit: SpooledSubmit) -> None:
        """Write what is new about a submit. Raises SpoolError."""
        self._write(entry, written(submit, self.secret))

    def sent(self, entry: Entry, submit: SpooledSubmit, job_id: str) -> None:
        """Note the job of a submit, and let the submit go. Raises SpoolError."""
        self.change(replace(entry, state="sent"), replace(submit, body={}, job_id=job_id))
        self.drop(entry)
        for old in self.entries("sent")[:-KEPT_SENT]:
            self.drop(old)

    def refuse(self, entry: Entry, submit: SpooledSubmit, why: str) -> None:
        """Keep a submit for its owner to decide: it is not delivered by itself any more. Raises SpoolError."""
        self.change(replace(entry, state="refused"), replace(submit, why=why[:1000]))
        self.drop(entry)

    def set_aside(self, entry: Entry) -> None:
        """Move a file that is no submit out of the way, as it is. Raises SpoolError."""
        self._move(entry, "bad")

    def put_back(self, entry: Entry) -> None:
        """Let a submit wait again that was set aside, with its key. Raises SpoolError."""
        self._move(entry, "waiting")

    def drop(self, entry: Entry) -> None:
        """Remove a file. Raises SpoolError."""
        with _spool_errors(self.root):
            self._path(entry).unlink(missing_ok=True)

    @contextmanager
    def locked(self, what: Literal["add", "send"], seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Do what only one process may do at a time. Raises SpoolError where another one does it for too long."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        place = self.root / f"{what}.lock"
        with _spool_errors(place):
            descriptor = os.open(place, flags, 0o600)
        try:
            with _spool_errors(place):
                _lock(descriptor, seconds)
            yield
        finally:
            os.close(descriptor)

    def _write(self, entry: Entry, content: bytes) -> None:
        place = self._path(entry)
        with _spool_errors(place):
            write_privately(place, content)
            folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _move(self, entry: Entry, state: State) -> None:
        with _spool_errors(self.root), suppress(FileNotFoundError):
            self._path(entry).rename(self._path(replace(entry, state=state)))

    def _path(self, entry: Entry) -> Path:
        return self.root / entry.state / entry.file_name

    def _size(self, entry: Entry) -> int:
        try:
            return os.lstat(self._path(entry)).st_size
        except FileNotFoundError:
            return 0


@contextmanager
def _spool_errors(place: Path) -> Iterator[None]:
    """Raise what the disk refuses as SpoolError."""
    try:
        yield
    except OSError as error:
        raise SpoolError(f"{place}: {error.strerror or error}") from None


def _lock(descriptor: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise SpoolError("another process uses the spool") from None
            time.sleep(_POLL_SECONDS)


def _secret(place: Path) -> bytes:
    try:
        return _whole_secret(place)
    except FileNotFoundError:
        pass
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    with _spool_errors(place):
        write_privately(beside, secrets.token_bytes(SECRET_BYTES))
        # Of two processes, one makes it.
        with suppress(FileExistsError):
            os.link(beside, place)
        beside.unlink()
        return _whole_secret(place)


def _whole_secret(place: Path) -> bytes:
    try:
        found = _content(place, SECRET_BYTES)
    except BadRecord as error:
        raise SpoolError(f"{place}: {error}") from None
    if len(found) != SECRET_BYTES:
        raise SpoolError(f"{place} is no key of a spool: remove it and the spool beside it")
    return found


def _content(place: Path, most: int) -> bytes:
    """The content of a file of our own. Raises BadRecord, FileNotFoundError, and SpoolError for what may pass."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = BadRecord if error.errno in _NO_FILE else SpoolError
        raise kind(f"{place} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file, _spool_errors(place):
        try:
            require_private(place, os.fstat(descriptor), is_folder=False)
        except SpoolError as error:
            raise BadRecord(str(error)) from None
        return file.read(most + 1)


def require_private(place: Path, found: os.stat_result, *, is_folder: bool) -> None:
    """Refuse what is not a folder or a file of the caller alone. Raises SpoolError."""
    kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not kind:
        raise SpoolError(f"{place} is not a {'folder' if is_folder else 'file'}")
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SpoolError(f"others own, can read or can write {place}, so it is not used")
