"""Finds and reads the files with a job's output. Jobs and users write to the shared folder: none of it is trusted."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from clusterra_contracts.identity import JobId

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""NONBLOCK, because opening a FIFO that somebody planted would wait for its writer."""
_NOT_OURS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG})
"""Errors of opening a path that does not exist, or is a link or a socket."""

MAX_ENTRIES = 20_000
"""Maximum number of entries of the shared folder that one look-up lists: everybody can make more."""
MAX_PARTS = 64
"""Maximum number of folders and the file in a path."""
FIND_SECONDS = 1.0
"""Time after which a look-up opens no further subfolder."""


class NoSuchOutput(Exception):
    """There is no such file that belongs to the user."""


class ClosedOutput(NoSuchOutput):
    """The file, or a folder on the way to it, is closed to the agent: its owner may have it nevertheless."""


class SearchLimit(Exception):
    """The shared folder has more than one look-up may search, and the output is not in the part that was searched."""


@dataclass(frozen=True, slots=True)
class OutputLocation:
    """Path of an output file in the shared folder."""

    folders: tuple[str, ...]
    name: str


def located(shared_dir: Path, path: str, uid: int) -> OutputLocation:
    """Returns the place of an output whose path relative to the shared folder is known.

    Only a regular file that `uid` owns counts, and no link on the way to it. Raises NoSuchOutput, OSError: ClosedOutput
    where the agent may not open it.
    """
    parts = path.split("/")
    if len(parts) > MAX_PARTS or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise NoSuchOutput
    location = OutputLocation(tuple(parts[:-1]), parts[-1])
    with _directory(shared_dir) as root, _opened_at(root, location, uid):
        return location


def find(shared_dir: Path, job_id: JobId, stream: Literal["stdout", "stderr"], uid: int) -> OutputLocation:
    """Finds an output of a job: `job_<id>.out` before `slurm-<id>.out` (`.err`), the shared folder before subfolders.

    Only a regular file that `uid` owns counts. Files of other users are skipped, so that nobody can hide somebody's
    output behind a file of the same name. The shared folder itself is always searched. Of its subfolders, one look-up
    searches those among the first MAX_ENTRIES entries, and stops after FIND_SECONDS.

    Raises NoSuchOutput, SearchLimit, OSError.
    """
    ends = time.monotonic() + FIND_SECONDS
    suffix = "out" if stream == "stdout" else "err"
    names = (f"job_{job_id}.{suffix}", f"slurm-{job_id}.{suffix}")
    with _directory(shared_dir) as root:
        for folder in _folders(root):
            if folder is not None and time.monotonic() > ends:
                raise SearchLimit
            for name in names:
                location = OutputLocation(() if folder is None else (folder,), name)
                try:
                    with _opened_at(root, location, uid):
                        return location
                except NoSuchOutput:
                    continue
    raise NoSuchOutput


def read(shared_dir: Path, location: OutputLocation, uid: int, offset: int, limit: int) -> tuple[bytes, int]:
    """Reads up to `limit` bytes from `offset`, never beyond the end. Returns them and the file's size.

    Raises NoSuchOutput, OSError.
    """
    with _directory(shared_dir) as root, _opened_at(root, location, uid) as file:
        return _part(file, offset, limit)


def read_opened(file: int, uid: int, offset: int, limit: int) -> tuple[bytes, int]:
    """Reads as `read` does, from a file that was opened before. Raises NoSuchOutput once it is deleted."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or not found.st_nlink:
        raise NoSuchOutput
    return _part(file, offset, limit)


def _part(file: int, offset: int, limit: int) -> tuple[bytes, int]:
    size = os.fstat(file).st_size
    length = min(limit, size - offset)
    return (os.pread(file, length, offset) if length > 0 else b""), size


def _folders(root: int) -> Iterator[str | None]:
    yield None
    with os.scandir(root) as entries:
        listed = islice(entries, MAX_ENTRIES)
        yield from sorted(entry.name for entry in listed if entry.is_dir(follow_symlinks=False))
        if next(entries, None) is not None:
            raise SearchLimit


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    directory = os.open(path, _DIRECTORY)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _opened_at(root: int, location: OutputLocation, uid: int) -> Iterator[int]:
    opened: list[int] = []
    try:
        try:
            for folder in location.folders:
                opened.append(os.open(folder, _DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1] if opened else root))
            opened.append(os.open(location.name, _FILE, dir_fd=opened[-1] if opened else root))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise ClosedOutput from None
            if error.errno in _NOT_OURS:
                raise NoSuchOutput from None
            raise
        found = os.fstat(opened[-1])
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            raise NoSuchOutput
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)
