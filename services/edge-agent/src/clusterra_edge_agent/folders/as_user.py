"""The process that opens files as a user: it gives up root for good, and then looks at what it was asked for.

It is `python -m clusterra_edge_agent.folders.as_user UID GID GROUPS ROOT`. ROOT is the descriptor of the shared folder.
Standard input is a socket: a request of JSON comes in, and an answer of JSON with open files goes out. What a request
names is opened one name at a time, below the shared folder, and no link is followed. So the kernel decides with the
user's rights, and neither `..` nor a link leads out.

The agent copies bytes by the open files. URLs and keys never reach this process. It imports nothing but Python's own
modules, as it starts for each request.
"""

import errno
import heapq
import json
import os
import resource
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from clusterra_edge_agent.folders import patterns

MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 100_000
"""The most entries that a request reads of folders: everybody can make more."""
MAX_PAGE_BYTES = 512 * 1024
"""The most JSON of a page of matches: it must fit into a message, and a path may have 16 KB, each six bytes in JSON."""
MAX_DEPTH = 64
MAX_SECONDS = 20.0
"""How long a request reads folders."""
MAX_CPU_SECONDS = 30

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Of folders on the way, the right to pass through them is enough."""
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""NONBLOCK, because opening a pipe that somebody planted would wait for its writer."""
_WRITTEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_LINK = "it is a link, and links are not followed"
_NEW_FILE_MODE = 0o644
_NEW_FOLDER_MODE = 0o755
"""As jobs make files and folders, with the umask 0022."""


class Refused(Exception):
    """A request, or a file of it, that is not carried out. The text is for its owner to read."""


def list_folder(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """A page of a folder in the order of the names' bytes."""
    after, limit = bytes.fromhex(request["after"]), request["limit"]
    budget = _Budget()
    with _folder(root, request["path"]) as folder, _entries(folder) as scan:
        names = (name for name in map(os.fsencode, (entry.name for entry in budget.spent(scan))) if name > after)
        page = heapq.nsmallest(limit + 1, names)
        entries: list[dict[str, Any]] = []
        unreadable = 0
        for name in page[:limit]:
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                shown = name.decode()
            except (OSError, UnicodeDecodeError):
                unreadable += 1
                continue
            entries.append({"name": shown, "kind": _kind(found.st_mode), "size": found.st_size, "at": found.st_mtime})
    # In hexadecimal digits, as the last name need not be UTF-8.
    more = page[limit - 1].hex() if len(page) > limit else None
    return {"entries": entries, "unreadable": unreadable, "after": more}, []


def make_folder(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Makes a folder and those on the way to it, unless they exist."""
    with _folder(root, request["folder"], make=True):
        return {}, []


def find_files(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The regular files below a folder that match a pattern, and what matches and is none."""
    given: list[str] = request["patterns"]
    budget = _Budget()
    found: list[tuple[bytes, dict[str, Any]]] = []
    with _folder(root, request["folder"]) as folder:
        for path, status in _walk(folder, given, budget):
            index = next((index for index, each in enumerate(given) if patterns.matches(each, path)), None)
            if index is None or path.encode() <= request["after"].encode():
                continue
            if status is None:
                detail = "its name is not UTF-8, or it cannot be looked at"
                found.append((path.encode(), {"problem": {"path": path, "detail": detail}}))
            elif stat.S_ISREG(status.st_mode):
                told = {
                    "path": path,
                    "size": status.st_size,
                    "modified_ns": status.st_mtime_ns,
                    "pattern": index,
                    "below": patterns.below_fixed_folder(given[index], path),
                }
                found.append((path.encode(), told))
            else:
                detail = _LINK if stat.S_ISLNK(status.st_mode) else "it is no regular file"
                found.append((path.encode(), {"problem": {"path": path, "detail": detail}}))
    page = heapq.nsmallest(request["limit"] + 1, found, key=lambda each: each[0])
    fitting = _fitting(page[: request["limit"]])
    kept = [each for _, each in fitting]
    problems = [each["problem"] for each in kept if "problem" in each]
    last = fitting[-1][0].decode() if len(page) > len(fitting) else None
    return {"found": [each for each in kept if "path" in each], "problems": problems, "after": last}, []


def _fitting(page: list[tuple[bytes, dict[str, Any]]]) -> list[tuple[bytes, dict[str, Any]]]:
    """The first ones of a page that fit into a message; of any, at least one."""
    size = 0
    for number, (_, each) in enumerate(page):
        size += len(json.dumps(each))
        if size > MAX_PAGE_BYTES:
            return page[: max(number, 1)]
    return page


def open_files(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Opened regular files, each described or with the reason why it was not opened."""
    described: list[dict[str, Any]] = []
    opened: list[int] = []
    with _folder(root, request["folder"]) as folder:
        for path in request["paths"]:
            try:
                descriptor, status = _opened(folder, path)
            except (OSError, Refused) as error:
                described.append({"detail": _detail(error), "transient": _transient(error)})
                continue
            opened.append(descriptor)
            described.append({"size": status.st_size, "modified_ns": status.st_mtime_ns})
    return {"files": described}, opened


def _opened(folder: int, path: str) -> tuple[int, os.stat_result]:
    """An opened regular file, and what it is. Raises OSError, Refused."""
    with _parent(folder, path) as (parent, name):
        descriptor = os.open(name, _FILE, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused("it is no regular file")
    return descriptor, status


def create_file(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The opened file for what is downloaded, with what an earlier attempt has left in it; folders are made."""
    with (
        _folder(root, request["folder"], make=True) as folder,
        _parent(folder, request["path"], make=True) as (parent, name),
    ):
        # Before a byte is downloaded: what cannot be replaced is told.
        try:
            there = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if there is not None and not stat.S_ISREG(there.st_mode):
            raise Refused("something that is no regular file has this name")
        _remove_of_others(parent, request["temporary"])
        descriptor = os.open(request["temporary"], _WRITTEN, _NEW_FILE_MODE, dir_fd=parent)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.geteuid():
            os.close(descriptor)
            raise Refused("its temporary file is no regular file, or somebody else's")
    return {"size": status.st_size}, [descriptor]


def _remove_of_others(parent: int, name: str) -> None:
    """Removes a file that somebody else has put there: a download would go on behind what they have written."""
    # Where it may not be removed, it is refused once it is opened.
    with suppress(FileNotFoundError, PermissionError):
        if os.stat(name, dir_fd=parent, follow_symlinks=False).st_uid != os.geteuid():
            os.unlink(name, dir_fd=parent)


def commit_file(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Gives the downloaded file its name."""
    with _folder(root, request["folder"]) as folder, _parent(folder, request["path"]) as (parent, name):
        os.rename(request["temporary"], name, src_dir_fd=parent, dst_dir_fd=parent)
    return {}, []


OPERATIONS: dict[str, Callable[[int, dict[str, Any]], tuple[dict[str, Any], list[int]]]] = {
    "list": list_folder,
    "make": make_folder,
    "find": find_files,
    "open": open_files,
    "create": create_file,
    "commit": commit_file,
}


class _Budget:
    """What one request may read of folders."""

    def __init__(self) -> None:
        self._left = MAX_ENTRIES
        self._ends = time.monotonic() + MAX_SECONDS

    def spent(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """The entries, each counted. Raises Refused beyond the bounds."""
        for entry in entries:
            self._left -= 1
            if self._left < 0:
                raise Refused(f"the folder has more than {MAX_ENTRIES} entries")
            if time.monotonic() > self._ends:
                raise Refused(f"the folder was not read within {MAX_SECONDS:g} s")
            yield entry


def _walk(folder: int, given: list[str], budget: _Budget) -> Iterator[tuple[str, os.stat_result | None]]:
    """What is in a folder and in those below it that a pattern may match, but folders. None: it cannot be looked at."""
    waiting = [""]
    while waiting:
        within = waiting.pop()
        try:
            with _folder(folder, within) as descriptor, _entries(descriptor) as scan:
                for entry in budget.spent(scan):
                    path = f"{within}/{entry.name}" if within else entry.name
                    shown = os.fsencode(path).decode(errors="replace")
                    try:
                        status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False)
                    except OSError:
                        yield shown, None
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        deep = path.count("/") + 1 >= MAX_DEPTH
                        if shown == path and not deep and any(patterns.may_match_below(each, path) for each in given):
                            waiting.append(path)
                    else:
                        yield shown, status if shown == path else None
        except OSError:
            # A folder that the user may not read, or that is gone, has nothing for them.
            if not within:
                raise


@contextmanager
def _entries(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder that the user may list."""
    listed = os.open(".", _LISTED, dir_fd=folder)
    try:
        with os.scandir(listed) as scan:
            yield scan
    finally:
        os.close(listed)


def _names(path: str) -> list[str]:
    names = path.split("/") if path else []
    if len(names) > MAX_DEPTH or any(name in ("", ".", "..") or "\0" in name for name in names):
        raise Refused("its path is not one of the shared folder")
    return names


@contextmanager
def _folder(root: int, path: str, *, make: bool = False) -> Iterator[int]:
    """Opens a folder, name after name. With `make`, those that do not exist are made."""
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
def _parent(folder: int, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Opens the folder of a file; with the file's own name."""
    within, _, name = path.rpartition("/")
    _names(path)
    with _folder(folder, within, make=make) as descriptor:
        yield descriptor, name


def _kind(mode: int) -> str:
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def _detail(error: OSError | Refused) -> str:
    if isinstance(error, Refused):
        return str(error)
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return _LINK
    return os.strerror(error.errno or 0)


def _transient(error: OSError | Refused) -> bool:
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


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Gives up root for good. Raises PermissionError where this process may not."""
    if min([uid, gid, *groups]) < 1000:
        raise PermissionError(errno.EPERM, "the ids below 1000 are the system's")
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError(errno.EPERM, "the ids were not changed")
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    os.umask(0o022)


def received(connection: socket.socket) -> bytes:
    """The request. Raises ValueError for one that is too large."""
    request = bytearray()
    while block := connection.recv(1 << 16):
        request += block
        if len(request) > MAX_REQUEST_BYTES:
            raise ValueError("the request is too large")
    return bytes(request)


def answer(root: int, given: bytes, connection: socket.socket) -> None:
    """Reads a request and answers it to the socket."""
    request = json.loads(given)
    opened: list[int] = []
    try:
        told, opened = OPERATIONS[request["operation"]](root, request)
    except (OSError, Refused) as error:
        missing = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        denied = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM)
        told = {
            "refused": _detail(error),
            "reason": "missing" if missing else "denied" if denied else "other",
            "transient": _transient(error),
        }
    socket.send_fds(connection, [b"\n"], opened)
    connection.sendall(json.dumps(told).encode())


def main() -> None:
    """Becomes the user and answers the request."""
    uid, gid, groups, root = sys.argv[1:]
    with socket.socket(fileno=0) as connection:
        # All of it is taken from the socket, also where it is refused: the answer would be lost otherwise.
        given = received(connection)
        try:
            become(int(uid), int(gid), [int(each) for each in groups.split(",") if each])
        except OSError:
            connection.sendall(b"\n" + json.dumps({"refused": "no right to act as users", "reason": "right"}).encode())
            return
        answer(int(root), given, connection)


if __name__ == "__main__":
    main()
