"""Which ports count as those of a slurmd: real sockets, of several users."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from clusterra_edge_agent.process import listening as module
from clusterra_edge_agent.process.listening import listening

USER = 20001

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="servers of several users need root")


@contextmanager
def server_of(uid: int, address: str) -> Iterator[int]:
    """A server of a user until the block ends; yields its port. A socket belongs to who was the user at its start."""
    os.seteuid(uid)
    try:
        server = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    finally:
        os.seteuid(0)
    with server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_users_server_is_no_slurmd(address: str) -> None:
    with server_of(USER, address) as port:
        assert listening({os.getpid(): port}) == frozenset()


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_server_of_root_counts_also_beside_that_of_a_user(address: str) -> None:
    with server_of(0, address) as port, server_of(USER, "127.0.0.1"):
        assert listening({os.getpid(): port}) == {os.getpid()}


def test_a_users_connections_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the sockets of the ports that are asked for are looked at."""
    looked: list[str] = []
    end = module._end

    def counted(shown: str) -> tuple[str, int]:
        looked.append(shown)
        return end(shown)

    monkeypatch.setattr(module, "_end", counted)

    with ExitStack() as stack:
        port = stack.enter_context(server_of(0, "127.0.0.1"))
        for _ in range(50):
            stack.enter_context(server_of(USER, "127.0.0.1"))
        assert listening({os.getpid(): port}) == {os.getpid()}

    assert len(looked) < 50
