"""Starts a process for each request that opens files as a user (`as_user`), and takes its answer.

Blocks: call it in a thread.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from clusterra_contracts.rpc.edge_folders import LocalUser
from pydantic import BaseModel, ConfigDict, ValidationError

_MODULE = "clusterra_edge_agent.folders.as_user"
MAX_SECONDS = 45.0
"""After this time the process is killed: it is stuck in a file system that does not answer."""
KILLED_SECONDS = 5.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_OPEN = 64


type Reason = Literal["missing", "denied", "right", "other"]
"""`right`: this agent may not open files as users."""


class FolderUnavailable(Exception):
    """The shared folder cannot be read or written now."""


class FolderRefused(Exception):
    """The file or the folder does not exist, or the user may not open it. The text is for them to read."""

    def __init__(self, detail: str, reason: Reason) -> None:
        super().__init__(detail)
        self.reason = reason


class _Refusal(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    refused: str
    reason: Reason
    transient: bool = False


class UserProcesses:
    """Opens files of one shared folder as users."""

    def __init__(self, shared_dir: Path) -> None:
        self._shared_dir = shared_dir

    def ask(self, user: LocalUser, operation: str, **request: object) -> dict[str, Any]:
        """The answer to a request that opens no files. Raises FolderRefused, FolderUnavailable."""
        with self.opened(user, operation, **request) as (told, _):
            return told

    @contextmanager
    def opened(
        self, user: LocalUser, operation: str, **request: object
    ) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
        """The answer, and the files that it opened, which are closed afterwards. Raises as `ask` does."""
        told, descriptors = self._answered(user, json.dumps({"operation": operation, **request}).encode())
        try:
            yield told, descriptors
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    @contextmanager
    def opened_file(self, user: LocalUser, path: str) -> Iterator[tuple[int, int]]:
        """A regular file that the user may read, and when it was changed, in ns. Raises as `ask` does."""
        folder, _, name = path.rpartition("/")
        if not name:
            raise FolderRefused("it is the shared folder itself", "other")
        with self.opened(user, "open", folder=folder, paths=[name]) as (told, descriptors):
            if not descriptors:
                # Told apart, files that exist and are not theirs would be known to everybody.
                raise FolderRefused("there is no such file, or it is not yours to read", "missing")
            yield descriptors[0], told["files"][0]["modified_ns"]

    def _answered(self, user: LocalUser, request: bytes) -> tuple[dict[str, Any], tuple[int, ...]]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                root = os.open(self._shared_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise FolderUnavailable(f"the shared folder cannot be opened ({error.strerror})") from error
            try:
                process = self._started(user, root, theirs)
            finally:
                os.close(root)
            theirs.close()
            descriptors: list[int] = []
            try:
                ours.settimeout(MAX_SECONDS)
                body = self._exchanged(ours, request, descriptors)
                told = json.loads(body)
                if "refused" in told:
                    _raise(_Refusal.model_validate(told))
            except (OSError, ValueError) as error:
                _close(descriptors)
                raise FolderUnavailable(_reason(error)) from error
            except BaseException:
                _close(descriptors)
                raise
            finally:
                # An agent that may become users may have no right to kill their processes: this one ends by itself.
                with suppress(PermissionError):
                    process.kill()
                # A process that hangs in the file system cannot be killed, and is left.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(KILLED_SECONDS)
        return told, tuple(descriptors)

    def _started(self, user: LocalUser, root: int, connection: socket.socket) -> subprocess.Popen[bytes]:
        ids = (str(user.uid), str(user.gid), ",".join(map(str, user.groups)), str(root))
        # Not with our environment, which names the secrets of the agent.
        return subprocess.Popen(
            (sys.executable, "-I", "-m", _MODULE, *ids),
            stdin=connection.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(root,),
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )

    def _exchanged(self, connection: socket.socket, request: bytes, descriptors: list[int]) -> bytes:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        first, received, _, _ = socket.recv_fds(connection, 1, MAX_OPEN, socket.MSG_CMSG_CLOEXEC)
        descriptors += received
        if first != b"\n":
            raise FolderUnavailable("the process that opens files has died")
        body = bytearray()
        while block := connection.recv(1 << 16):
            body += block
            if len(body) > MAX_ANSWER_BYTES:
                raise FolderUnavailable("the answer is too large")
        return bytes(body)


def _raise(refusal: _Refusal) -> None:
    if refusal.reason == "right":
        raise FolderRefused("the edge-agent of this cluster may not open files as its users", "right")
    if refusal.transient:
        raise FolderUnavailable(f"the shared folder does not answer as it should ({refusal.refused})")
    raise FolderRefused(refusal.refused, refusal.reason)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return f"the shared folder does not answer within {MAX_SECONDS:g} s"
    if isinstance(error, ValidationError | ValueError):
        return "the answer of the process that opens files cannot be read"
    return f"the process that opens files has died ({error.strerror})"


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
