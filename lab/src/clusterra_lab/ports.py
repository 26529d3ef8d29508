"""Blocks of TCP ports, for programs that take ports of their own as they need them."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_lab.problem import LabProblem

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
