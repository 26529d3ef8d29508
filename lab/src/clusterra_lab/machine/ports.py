"""TCP ports that no two labs of this machine use: single ones, persistent ones, and blocks."""

import errno
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem

_FIRST, _LAST = 10_000, 15_000
"""Range of the blocks. It lies below the range of `free_port`, so that the two never collide."""
_MAX_RESERVATIONS = 200
_reservations: deque[int] = deque()
"""Open sockets that reserve the last ports from `free_port`. By the time one is closed, the port's server listens."""


class NoPortsLeft(LabProblem):
    """All blocks of ports are in use."""


def free_port() -> int:
    """Return a random TCP port of 127.0.0.1 where no process listens, and reserve it against other labs for a while.

    The port lies below the range of the kernel for outgoing connections. Otherwise a client that keeps dialling the
    port of a stopped server could get that port as its own source port, connect to itself and keep the server out.
    """
    while not (is_free(port := random.randrange(15_000, 30_000)) and _reserve(port)):
        pass
    return port


def _reserve(port: int) -> bool:
    """Try to reserve the port; without this, two labs that start together could use the same port."""
    if (sign := _sign(port)) is None:
        return False
    # Detached, because the last sockets stay open until this process ends, and Python would warn of each.
    _reservations.append(sign.detach())
    if len(_reservations) > _MAX_RESERVATIONS:
        os.close(_reservations.popleft())
    return True


def _sign(port: int) -> socket.socket | None:
    """Return a socket that reserves the port against other labs while it is open, or None when one has it."""
    sign = socket.socket(socket.AF_UNIX)
    try:
        # An abstract name, which the kernel frees at the latest when this process ends.
        sign.bind(f"\0clusterra-port-{port}")
    except OSError:
        sign.close()
        return None
    return sign


def is_free(port: int) -> bool:
    """Whether a server could listen on this TCP port of 127.0.0.1 now."""
    with socket.socket() as probe:
        # As servers do: connections of the last server in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


@contextmanager
def reserved_ports(count: int) -> Iterator[range]:
    """Reserve `count` adjoining free ports of 127.0.0.1 against other labs until the block ends. Raises NoPortsLeft."""
    firsts = list(range(_FIRST, _LAST - count + 1))
    random.shuffle(firsts)
    for first in firsts:
        block = range(first, first + count)
        with ExitStack() as signs:
            if all(_enter(signs, port) for port in block):
                yield block
                return
    raise NoPortsLeft(f"no block of {count} ports between {_FIRST} and {_LAST} is free: stop other labs first")


def _enter(signs: ExitStack, port: int) -> bool:
    """Reserve one port of a block, if another lab has not and no process listens there."""
    if (sign := _sign(port)) is None:
        return False
    signs.enter_context(sign)
    return is_free(port)


def kept_port(file: Path) -> int:
    """Return the port in `file` if it is free, else a new port, which is written to `file`."""
    if file.exists() and is_free(port := int(file.read_text())):
        return port
    port = free_port()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(port))
    return port
