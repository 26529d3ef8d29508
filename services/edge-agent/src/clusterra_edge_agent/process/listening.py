"""Finds listening servers in the kernel's socket tables: a test connection would leave errors in the servers' logs."""

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LISTEN = "0A"
_NO_PROCESS = "0"
"""The inode of a connection that no process holds, because none has accepted it yet or its process has ended."""


@dataclass(frozen=True, slots=True)
class _Socket:
    address: str
    port: int
    remote: tuple[str, int]
    listens: bool
    uid: int
    held: bool
    """Whether a process holds it."""


def listening(ports: Mapping[int, int]) -> frozenset[int]:
    """Returns the pids in `ports` (pid to TCP port) whose port is open in the network namespace of that process.

    Only servers of root and of the agent's own user count: any user may listen on the port of a slurmd that boots.
    Blocks: the kernel's tables may be long.
    """
    open_ports: dict[int, frozenset[int]] = {}
    found = set()
    for pid, port in ports.items():
        try:
            namespace = os.stat(f"/proc/{pid}/ns/net").st_ino  # noqa: PTH116 - a magic link is not a path
            if namespace not in open_ports:
                open_ports[namespace] = frozenset(_open_ports(pid, frozenset(ports.values())))
        except OSError:
            continue
        if port in open_ports[namespace]:
            found.add(pid)
    return frozenset(found)


def owners(pid: int, port: int, client_port: int | None = None) -> frozenset[int]:
    """Returns the uids of the servers that a client of 127.0.0.1 reaches on a TCP port. Raises OSError.

    `pid` is a process in the network namespace of the client. A server of another address is not reached: anybody may
    listen there, on the port of somebody's server. Nor is one of `::` beside one of IPv4, as it must be of IPv6 alone:
    the kernel lets no two users listen where one connection could reach both.

    With the port of a client that has connected, the uid of the process that has accepted the connection counts as
    well: its server may have ended since. A connection that nobody has accepted ends with its server.
    """
    sockets = list(_sockets(pid, {port}))
    listening = [each for each in sockets if each.listens]
    reached = [each for each in listening if each.address in (LOOPBACK, "0.0.0.0")]  # noqa: S104 - it is compared
    accepted = [
        each for each in sockets if each.held and (each.address, each.remote) == (LOOPBACK, (LOOPBACK, client_port))
    ]
    return frozenset(
        each.uid for each in (*(reached or (each for each in listening if each.address == "::")), *accepted)
    )


def _open_ports(pid: int, ports: Collection[int]) -> Iterator[int]:
    for each in _sockets(pid, ports):
        if each.listens and each.uid in (0, os.geteuid()):
            yield each.port


def _sockets(pid: int, ports: Collection[int]) -> Iterator[_Socket]:
    """The sockets of these ports. Others are hardly looked at: users may have any number of connections."""
    wanted = {f"{port:04X}" for port in ports}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            if line.split(None, 2)[1][-4:] not in wanted:
                continue
            _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split(None, 10)
            yield _Socket(*_end(local), _end(remote), state == _LISTEN, int(uid), inode != _NO_PROCESS)


def _end(shown: str) -> tuple[str, int]:
    """An address and a port, such as `0100007F:22B8`. The kernel shows the address in words of this machine's order."""
    address, _, port = shown.partition(":")
    words = [int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8)]
    parsed = ip_address(b"".join(words))
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed), int(port, 16)
