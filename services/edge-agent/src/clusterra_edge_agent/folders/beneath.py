"""Opens folders and files beneath the shared folder, and follows no symbolic link.

A path is opened one name at a time, as openat2's `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS` would do. So neither `..`
nor a link leads out, and nobody can swap a folder for a link between a check and its use. Only Python's own modules are
imported: `as_user` starts for each request.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MAX_DEPTH = 64
"""The most names in a path."""
LINK = "it is a link, and links are not followed"

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Of folders on the way, the right to pass through them is enough."""
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FOLDER_MODE = 0o700
"""As jobs make folders by default, with the umask 0077."""


class Refused(Exception):
    """A request, or a file of it, that is not carried out. The text is for its owner to read."""


@contextmanager
def opened_folder(root: int, path: str, *, make: bool = False) -> Iterator[int]:
    """Opens a folder for the block, name after name, and yields its descriptor.

    With `make`, the folders that do not exist are made. Raises OSError, and Refused for a path with `..` or too many
    names.
    """
    current = os.open(".", _FOLDER, dir_fd=root)
    try:
        for name in _names(path):
            if make:
                # Also where the user may not make one: it may exist, and the next line finds out.
                with suppress(FileExistsError, PermissionError):
                    os.mkdir(name, _NEW_FOLDER_MODE, dir_fd=current)
            following = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


@contextmanager
def opened_parent(folder: int, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Opens the folder of a file for the block, and yields its descriptor and the file's own name.

    Raises as `opened_folder` does.
    """
    within, _, name = path.rpartition("/")
    _names(path)
    with opened_folder(folder, within, make=make) as descriptor:
        yield descriptor, name


@contextmanager
def entries_of(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Yields the entries of an open folder. Raises OSError where the user may not list it."""
    listed = os.open(".", _LISTED, dir_fd=folder)
    try:
        with os.scandir(listed) as scan:
            yield scan
    finally:
        os.close(listed)


def reason_of(error: OSError | Refused) -> str:
    """Why something was not opened, for the owner of the request to read."""
    if isinstance(error, Refused):
        return str(error)
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return LINK
    return os.strerror(error.errno or 0)


def is_transient(error: OSError | Refused) -> bool:
    """Whether trying again may help: the file server has a fault, and not the file."""
    return isinstance(error, OSError) and error.errno in (
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    )


def _names(path: str) -> list[str]:
    names = path.split("/") if path else []
    if len(names) > MAX_DEPTH or any(name in ("", ".", "..") or "\0" in name for name in names):
        raise Refused("its path is not one of the shared folder")
    return names
