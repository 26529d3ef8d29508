"""Finds listening servers in the kernel's socket tables: a test connection would leave errors in the servers' logs."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_NO_PROCESS = "0"
"""The inode of a connection that no process holds, because none has accepted it yet or its process has ended."""


@dataclass(frozen=True, slots=True)
class _Socket:
    port: int
    remote_port: int
    listens: bool
    uid: int
    held: bool
    """Whether a process holds it."""


def listening(ports: Mapping[int, int]) -> frozenset[int]:
    """Returns the pids in `ports` (pid to TCP port) whose port is open in the network namespace of that process."""
    open_ports: dict[int, frozenset[int]] = {}
    found = set()
    for pid, port in ports.items():
        try:
            namespace = os.stat(f"/proc/{pid}/ns/net").st_ino  # noqa: PTH116 - a magic link is not a path
            if namespace not in open_ports:
                open_ports[namespace] = frozenset(_open_ports(pid))
        except OSError:
            continue
        if port in open_ports[namespace]:
            found.add(pid)
    return frozenset(found)


def owners(pid: int, port: int, client_port: int | None = None) -> frozenset[int]:
    """Returns the uids of the servers that listen on a TCP port in the network namespace of a process. Raises OSError.

    A server that listens on some addresses only counts, too: which of several a client reaches is the kernel's choice.
    With the port of a client that has connected there, the uid of the process that has accepted the connection counts
    as well: its server may have ended since. A connection that nobody has accepted ends with its server.
    """
    return frozenset(
        each.uid
        for each in _sockets(pid)
        if each.port == port and (each.listens or (each.held and each.remote_port == client_port))
    )


def _open_ports(pid: int) -> Iterator[int]:
    for each in _sockets(pid):
        if each.listens:
            yield each.port


def _sockets(pid: int) -> Iterator[_Socket]:
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split(None, 10)
            yield _Socket(_port(local), _port(remote), state == _LISTEN, int(uid), inode != _NO_PROCESS)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
