"""What is left of a worker is killed, whatever its processes call themselves."""

import subprocess
import sys
import uuid

import pytest
from clusterra_edge_agent.process import leftovers
from clusterra_edge_agent.process.leftovers import WORKER, kill_processes

_NAMED = """
import sys
open("/proc/self/comm", "wb").write(b"\\xff) Z")
print(flush=True)
sys.stdin.read()
"""

_LONG = """
import ctypes, struct, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 1 << 40
at = libc.mmap(None, size, 1, 0x4022, -1, 0)  # PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
_, _, fields = open("/proc/self/stat").read().rpartition(")")
code, end_code, stack, data, end_data, heap, words, end_words = (
    int(fields.split()[at - 3]) for at in (26, 27, 28, 45, 46, 47, 48, 49)
)
places = (code, end_code, data, end_data, heap, libc.sbrk(0), stack, words, end_words, at, at + size, 0)
told = struct.pack("=12QII", *places, 0, 0xFFFFFFFF)
print(libc.prctl(35, 14, ctypes.create_string_buffer(told), len(told), 0), flush=True)  # PR_SET_MM, PR_SET_MM_MAP
sys.stdin.read()
"""
"""Shows a TiB of zeros as its environment, and holds none of it."""


def test_an_environment_without_end_is_read_within_a_bound() -> None:
    with subprocess.Popen([sys.executable, "-c", _LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        if running.stdout.readline() != b"0\n":
            pytest.skip("this kernel lets no process say where its environment is")
        shown = subprocess.run(["head", "-c", "9000000", f"/proc/{running.pid}/environ"], stdout=subprocess.PIPE)
        assert len(shown.stdout) == 9_000_000

        read = leftovers._environment(running.pid)

        assert len(read) == leftovers.MAX_ENVIRONMENT_BYTES + 2
        running.kill()


def test_a_process_whose_name_is_no_text_is_killed_with_its_worker() -> None:
    worker = f"general-small-{uuid.uuid4().hex[:6]}"
    environment = {WORKER: worker}
    with subprocess.Popen(
        [sys.executable, "-c", _NAMED],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()

        kill_processes(worker)

        assert running.wait(10) == -9
