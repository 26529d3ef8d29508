"""TCP ports that outlive a process, and blocks of them for programs that take some as they need them."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterra_lab.problem import LabProblem
from clusterra_lab.process import free_port, is_free

_FIRST, _LAST = 10_000, 15_000
"""Below what `free_port` gives, so that neither takes from the other."""


class NoPortsLeft(LabProblem):
    """Every block of ports is taken."""


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
