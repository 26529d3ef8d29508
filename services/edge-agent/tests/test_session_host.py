"""Whose server a session's port is, as the kernel tells: real sockets, of several users."""

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusterra_edge_agent.process.session_host import session_host
from clusterra_edge_agent.substrate.port import SessionServer

WORKER = "general-small-x7k2p"
OWNER, ANOTHER = 20001, 20002
_LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
address = sys.argv[3]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
server = socket.create_server((address, int(sys.argv[2])), family=family, dualstack_ipv6=len(sys.argv) > 4)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""

_ACCEPT = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
server.close()
print("accepted", flush=True)
sys.stdin.read()
"""
"""Accepts one connection, and listens no more."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="servers of several users need root")


@contextmanager
def server_of(uid: int, port: int = 0, address: str = "127.0.0.1", *more: str) -> Iterator[int]:
    """A server of a user until the block ends; yields its port. With `dual`, one of `::` serves IPv4 too."""
    command = [sys.executable, "-c", _LISTEN, str(uid), str(port), address, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield int(running.stdout.readline())
        running.kill()


@contextmanager
def job_runs(tmp_path: Path, job_id: str) -> Iterator[str]:
    """A step of a job runs on a worker, as slurmstepd's socket tells; yields the worker's name."""
    worker = f"{WORKER}-{uuid.uuid4().hex[:6]}"
    with socket.socket(socket.AF_UNIX) as step:
        step.bind(str(tmp_path / f"{worker}_{job_id}.0"))
        step.listen()
        yield worker


def test_the_owners_server_may_be_reached(tmp_path: Path) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(OWNER) as port:
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, port)) == "127.0.0.1"


def test_another_users_server_may_not(tmp_path: Path) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(ANOTHER) as port:
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, port)) is None


@pytest.mark.parametrize(
    ("own", "address"),
    [("127.0.0.1", "127.0.0.5"), ("127.0.0.1", "::1"), ("127.0.0.1", "::"), ("0.0.0.0", "::1"), ("0.0.0.0", "::")],
)
def test_nobody_keeps_a_server_from_its_owner(tmp_path: Path, own: str, address: str) -> None:
    """Another user listens on the same port, at an address that the agent does not connect to."""
    with job_runs(tmp_path, "42") as worker, server_of(OWNER, 0, own) as port, server_of(ANOTHER, port, address):
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, port)) == "127.0.0.1"


@pytest.mark.parametrize("address", [("0.0.0.0",), ("::",), ("::", "dual")])
def test_another_users_server_of_all_addresses_may_not(tmp_path: Path, address: tuple[str, ...]) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(ANOTHER, 0, *address) as port:
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, port)) is None


@pytest.mark.parametrize(("uid", "host"), [(OWNER, "127.0.0.1"), (ANOTHER, None)])
def test_a_connection_belongs_to_who_accepted_it(tmp_path: Path, uid: int, host: str | None) -> None:
    """Another user takes the port while the owner's server is away, and gives it back."""
    command = [sys.executable, "-c", _ACCEPT, str(uid)]
    with (
        job_runs(tmp_path, "42") as worker,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as accepting,
    ):
        assert accepting.stdout is not None
        port = int(accepting.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert accepting.stdout.readline() == "accepted\n"
            with server_of(OWNER, port):
                server = SessionServer("42", OWNER, port, client.getsockname()[1])

                found = session_host(worker, os.getpid(), server)
        accepting.kill()

    assert found == host


@pytest.mark.parametrize(("uid", "host"), [(OWNER, "127.0.0.1"), (ANOTHER, None)])
def test_a_connection_that_waits_belongs_to_who_listens(tmp_path: Path, uid: int, host: str | None) -> None:
    with (
        job_runs(tmp_path, "42") as worker,
        server_of(uid) as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        server = SessionServer("42", OWNER, port, client.getsockname()[1])

        assert session_host(worker, os.getpid(), server) == host


def test_a_server_of_the_system_may_not(tmp_path: Path) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(0) as port:
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, port)) is None


def test_a_port_without_a_server_may_not(tmp_path: Path) -> None:
    with job_runs(tmp_path, "42") as worker:
        assert session_host(worker, os.getpid(), SessionServer("42", OWNER, 1)) is None


@pytest.mark.parametrize("job_id", ["4", "421", "43"])
def test_a_job_that_does_not_run_there_has_no_server(tmp_path: Path, job_id: str) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(OWNER) as port:
        assert session_host(worker, os.getpid(), SessionServer(job_id, OWNER, port)) is None


def test_a_worker_that_has_ended_has_no_server(tmp_path: Path) -> None:
    with job_runs(tmp_path, "42") as worker, server_of(OWNER) as port:
        ended = subprocess.Popen(["/bin/true"])
        ended.wait()

        assert session_host(worker, ended.pid, SessionServer("42", OWNER, port)) is None
