"""The agent's wall clock is shifted at once, that of other processes and the monotonic clock are not."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soak.clock import AgentClock

READ = "import time; print(time.time(), time.monotonic())"


@pytest.fixture
def clock(tmp_path: Path) -> AgentClock:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return AgentClock(tmp_path)


def clocks(clock: AgentClock, name: str) -> tuple[float, float]:
    """How far the wall clock and the monotonic clock of a process with this name are ahead of ours."""
    wall, monotonic = time.time(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", READ, name], env={**os.environ, **clock.environment}, capture_output=True, check=True
    )
    its_wall, its_monotonic = map(float, done.stdout.split())
    return its_wall - wall, its_monotonic - monotonic


def test_only_the_agents_wall_clock_is_shifted(clock: AgentClock) -> None:
    clock.step(-3600)

    agent, other = clocks(clock, "clusterra_edge_agent"), clocks(clock, "clusterra_proxy")

    assert agent[0] == pytest.approx(-3600, abs=60)
    assert agent[1] == pytest.approx(0, abs=60)
    assert other == pytest.approx((0, 0), abs=60)


def test_a_step_back_to_zero_ends_the_shift(clock: AgentClock) -> None:
    clock.step(120)
    clock.step(0)

    assert clocks(clock, "clusterra_edge_agent")[0] == pytest.approx(0, abs=60)
