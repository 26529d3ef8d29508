"""Which steps run on a worker, as the kernel tells: real sockets, also of users."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusterra_edge_agent.process.job_steps import running_steps

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sockets of several users need root")

USER = 20001
_BIND = """
import os, socket, sys
os.chdir(sys.argv[2])
os.setuid(int(sys.argv[1]))
bound = socket.socket(socket.AF_UNIX)
bound.bind(os.fsencode(sys.argv[3]))
bound.listen()
print(os.fstat(bound.fileno()).st_ino, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker() -> str:
    return f"general-small-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o1777)
    return tmp_path


@contextmanager
def bound(folder: Path, uid: int, name: str) -> Iterator[int]:
    """A local socket of a user until the block ends; yields its inode."""
    command = [sys.executable, "-c", _BIND, str(uid), str(folder), f"./{name}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield int(running.stdout.readline())
        running.kill()


def test_steps_of_slurm_are_found(folder: Path, worker: str) -> None:
    with bound(folder, 0, f"{worker}_42.0"), bound(folder, 0, f"{worker}_7.4294967292.1"):
        assert running_steps(worker, os.getpid()) == ("42.0", "7.4294967292.1")


def test_a_users_socket_is_no_step(folder: Path, worker: str) -> None:
    """It would keep the worker from ever being removed."""
    with bound(folder, USER, f"{worker}_42.0"):
        assert running_steps(worker, os.getpid()) == ()


def test_a_name_with_a_line_break_is_no_other_socket(folder: Path, worker: str) -> None:
    with bound(folder, 0, "systems") as inode:
        lines = folder / f"\n0: 2 0 10000 1 1 {inode} "
        lines.mkdir()
        lines.chmod(0o777)
        with bound(folder, USER, f"{lines.name}/{worker}_42.0"):
            assert running_steps(worker, os.getpid()) == ()


def test_a_name_that_is_no_text_hides_no_step(folder: Path, worker: str) -> None:
    with bound(folder, USER, os.fsdecode(b"\xff")), bound(folder, 0, f"{worker}_42.0"):
        assert running_steps(worker, os.getpid()) == ("42.0",)
