"""Finds listening servers in the kernel's socket tables: a test connection would leave errors in the servers' logs."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_LISTEN = "0A"


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


def owners(pid: int, port: int) -> frozenset[int]:
    """Returns the uids of the servers that listen on a TCP port in the network namespace of a process. Raises OSError.

    A server that listens on some addresses only counts, too: which of several a client reaches is the kernel's choice.
    """
    return frozenset(int(uid) for local, uid in _listeners(pid) if local == port)


def _open_ports(pid: int) -> Iterator[int]:
    for port, _ in _listeners(pid):
        yield port


def _listeners(pid: int) -> Iterator[tuple[int, str]]:
    """The ports, and the uids of their servers."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, _, _, _, uid, *_ = line.split(None, 8)
            if state == _LISTEN:
                yield int(local.rpartition(":")[2], 16), uid
