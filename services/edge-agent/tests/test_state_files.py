"""The lock on the state folder: one folder, one agent."""

import subprocess
import sys
from pathlib import Path

import pytest
from clusterra_edge_agent.substrate.state_files import StateInUse, locked


def test_a_second_agent_is_rejected_until_the_first_ends(tmp_path: Path) -> None:
    program = f"""
import pathlib, sys
from clusterra_edge_agent.substrate.state_files import locked
with locked(pathlib.Path({str(tmp_path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateInUse, match="another agent"), locked(tmp_path):
            pass

        holder.kill()
        holder.wait()
        with locked(tmp_path) as folder:
            assert folder == tmp_path
