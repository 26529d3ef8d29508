"""Secrets in files. A changed file is read again.

Whoever may write a reference must not choose from all files that the service can read: it reads those below some
folders alone, and follows no link out of them.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from clusterra_runtime.secrets.reference import SecretUnavailable

MAX_BYTES = 1024 * 1024
_MAX_KEPT = 1024

_read: dict[Path, tuple[tuple[int, int, int], bytes]] = {}


def read_file(path: Path, folders: Sequence[Path] | None = None) -> bytes:
    """Returns the content of a file, from memory while the file is unchanged. Raises SecretUnavailable.

    `folders`: the file must be below one of them, and so must what a link leads to; None: it may be anywhere.
    """
    _check_place(path, path, folders)
    try:
        real = Path(os.path.realpath(path, strict=True))
        _check_place(path, real, None if folders is None else [Path(os.path.realpath(each)) for each in folders])
        status = real.stat()
        _check(path, status)
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = _read.get(real)
        if known is None or known[0] != version:
            known = version, _content(path, real)
            if len(_read) >= _MAX_KEPT:
                _read.clear()
            _read[real] = known
    except OSError as error:
        raise SecretUnavailable(
            f"file:{path} cannot be read ({os.strerror(error.errno or 0)}): the service must have read access to it"
        ) from None
    if not known[1]:
        raise SecretUnavailable(f"file:{path} is empty: write the secret into the file")
    return known[1]


def _check_place(path: Path, place: Path, folders: Sequence[Path] | None) -> None:
    if folders is not None and not any(place.is_relative_to(each) for each in folders):
        raise SecretUnavailable(
            f"file:{path} is not read: this service reads secrets only from files below"
            f" {', '.join(map(str, folders)) or 'no folder'}, and follows no link out of there; move the file, or add"
            " its folder to CLUSTERRA_SECRET_FOLDERS"
        )


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretUnavailable(f"file:{path} is not a regular file: write the secret into one")
    if status.st_size > MAX_BYTES:
        raise SecretUnavailable(f"file:{path} has {status.st_size} bytes: no secret is larger than {MAX_BYTES}")


def _content(path: Path, real: Path) -> bytes:
    # Without waiting for a writer, should the file have become a pipe since it was looked at, or following a link.
    with os.fdopen(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        _check(path, os.fstat(file.fileno()))
        # The size that the system states need not be true: files of /proc have 0 bytes, and a file may grow.
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SecretUnavailable(f"file:{path} goes on after {MAX_BYTES} bytes: no secret is larger")
    return content
