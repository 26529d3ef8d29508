"""The process that opens files as a user: it drops root's privileges for good, and then carries out one request.

It is `python -m clusterra_edge_agent.folders.as_user UID GID GROUPS ROOT`. ROOT is the descriptor of the shared folder.
Standard input is a socket: a request of JSON comes in, and an answer of JSON with open files (`SCM_RIGHTS`) goes out.
What a request names is opened beneath the shared folder (`beneath`), so the kernel decides with the user's rights.

The agent copies bytes by the open files. URLs and keys never reach this process. It and what it imports import nothing
but Python's own modules, as it starts for each request. Nothing may import this module: as a script it is `__main__`,
and an import would make its classes a second time.
"""

import errno
import json
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from clusterra_edge_agent.folders.beneath import Refused, is_transient, opened_folder, opened_parent, reason_of
from clusterra_edge_agent.folders.listing import find_files, list_folder

MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_CPU_SECONDS = 30
MAX_SECONDS = 60
"""Longer than the agent waits for an answer. The process ends itself then: the agent may have no right to end it."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""NONBLOCK, because opening a pipe that somebody planted would wait for its writer."""
_WRITTEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_NEW_FILE_MODE = 0o600
"""As jobs make files by default, with the umask 0077."""


def make_folder(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Makes a folder and those on the way to it, unless they exist."""
    with opened_folder(root, request["folder"], make=True):
        return {}, []


def open_files(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Opened regular files, each described or with the reason why it was not opened."""
    described: list[dict[str, Any]] = []
    opened: list[int] = []
    with opened_folder(root, request["folder"]) as folder:
        for path in request["paths"]:
            try:
                descriptor, status = _opened(folder, path)
            except (OSError, Refused) as error:
                described.append({"detail": reason_of(error), "transient": is_transient(error)})
                continue
            opened.append(descriptor)
            described.append({"size": status.st_size, "modified_ns": status.st_mtime_ns})
    return {"files": described}, opened


def _opened(folder: int, path: str) -> tuple[int, os.stat_result]:
    """An opened regular file, and what it is. Raises OSError, Refused."""
    with opened_parent(folder, path) as (parent, name):
        descriptor = os.open(name, _FILE, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused("it is no regular file")
    return descriptor, status


def create_file(root: int, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The opened file for what is downloaded, with what an earlier attempt has left in it; folders are made."""
    with (
        opened_folder(root, request["folder"], make=True) as folder,
        opened_parent(folder, request["path"], make=True) as (parent, name),
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
    with opened_folder(root, request["folder"]) as folder, opened_parent(folder, request["path"]) as (parent, name):
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


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Drops root's privileges for good. Raises PermissionError where this process may not."""
    if min([uid, gid, *groups]) < 1000:
        raise PermissionError(errno.EPERM, "the ids below 1000 are the system's")
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError(errno.EPERM, "the ids were not changed")
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    signal.alarm(MAX_SECONDS)
    os.umask(0o077)


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
            "refused": reason_of(error),
            "reason": "missing" if missing else "denied" if denied else "other",
            "transient": is_transient(error),
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
