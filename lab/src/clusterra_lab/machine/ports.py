"""TCP ports of this machine that no two labs take: one, one that outlives a process, a block of them."""

import errno
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem

_FIRST, _LAST = 10_000, 15_000
"""Below what `free_port` gives, so that neither takes from the other."""
_CLAIMS = 200
_claims: deque[int] = deque()
"""Signs of the last ports that were given away, as open files; by the time one is dropped its server listens."""


class NoPortsLeft(LabProblem):
    """Every block of ports is taken."""


def free_port() -> int:
    """A random TCP port of 127.0.0.1 that nobody listens on at this moment, and that no other lab is given soon.

    It lies below the range that the kernel gives to outgoing connections: a client that keeps dialling the port of
    a stopped server could otherwise be given that very port as its own, connect to itself and keep the server out.
    """
    while not (is_free(port := random.randrange(15_000, 30_000)) and _claimed(port)):
        pass
    return port


def _claimed(port: int) -> bool:
    """Whether it is ours now: two labs that start at once would otherwise take each other's servers for their own."""
    sign = socket.socket(socket.AF_UNIX)
    try:
        # A name in the kernel alone, which is free again at the end of this process at the latest.
        sign.bind(f"\0clusterra-port-{port}")
    except OSError:
        sign.close()
        return False
    # Detached, for the last ones are left to the end of this process, and an open socket would be warned of there.
    _claims.append(sign.detach())
    if len(_claims) > _CLAIMS:
        os.close(_claims.popleft())
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen on a TCP port of 127.0.0.1 at this moment."""
    with socket.socket() as probe:
        # As servers do it: connections of the port's last owner in TIME_WAIT do not make it taken.
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
    """`count` adjoining ports of 127.0.0.1 that no other lab gets within the block. Raises NoPortsLeft."""
    bases = list(range(_FIRST, _LAST - count, count + 1))
    random.shuffle(bases)
    for base in bases:
        # The port before the block stays bound as a sign to other labs; it is free when this process has ended.
        with socket.socket() as sign:
            try:
                sign.bind(("127.0.0.1", base))
            except OSError:
                continue
            yield range(base + 1, base + 1 + count)
            return
    raise NoPortsLeft(f"no {count} adjoining ports between {_FIRST} and {_LAST} are free: end other labs first")


def kept_port(file: Path) -> int:
    """The port that `file` names, when it is free; else a new one, which the file names from now on."""
    if file.exists() and is_free(port := int(file.read_text())):
        return port
    port = free_port()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(port))
    return port
