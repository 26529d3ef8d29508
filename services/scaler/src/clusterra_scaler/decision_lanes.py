"""Where decisions are computed, so that a long one delays neither the event loop nor the decisions of others.

A small observation is decided on the event loop, which takes a few milliseconds. Larger ones are decided on threads,
one for each order of magnitude, and on each thread one after the other. The interpreter hands over between threads
every fifth of a millisecond, so that the event loop goes on meanwhile. Clusters whose snapshots come in parts have a
process of their own (`large_process`), with its own lanes.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from clusterra_contracts.queue import QueueSnapshot

from clusterra_scaler.planner.time_limit import time_limit

SMALL_RECORDS = 500
"""Groups of pending jobs, running jobs and nodes of a small snapshot together."""
MEDIUM_RECORDS = 5_000
"""Of a medium snapshot, whose decision takes less than a second and does not wait for those that take longer."""
MAX_CPU_SECONDS = 30.0
"""Of one decision. Ten times the time of 50,000 jobs and 5,000 workers."""
SWITCH_SECONDS = 0.0002
"""The interpreter's switch interval. With its default of 5 ms a small decision beside a large one waits that long each
time that it has waited for something."""


class DecisionLanes:
    """Runs computations: small ones at once, larger ones beside the event loop, one after the other."""

    def __init__(self) -> None:
        self._medium = ThreadPoolExecutor(1, thread_name_prefix="medium-decisions")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-decisions")
        sys.setswitchinterval(SWITCH_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in (self._medium, self._large):
            lane.shutdown(wait=False, cancel_futures=True)

    async def run[T](self, snapshot: QueueSnapshot, compute: Callable[[], T]) -> T:
        """Return what `compute` returns for a snapshot. The caller waits, other tasks go on. Raises DecisionOverdue."""
        number = records(snapshot)
        if number <= SMALL_RECORDS:
            return _within_limit(compute)
        lane = self._medium if number <= MEDIUM_RECORDS else self._large
        return await asyncio.get_running_loop().run_in_executor(lane, _within_limit, compute)


def _within_limit[T](compute: Callable[[], T]) -> T:
    with time_limit(MAX_CPU_SECONDS):
        return compute()


def records(snapshot: QueueSnapshot) -> int:
    """How many records a snapshot has, which its decision's time grows with."""
    return sum(len(each) for each in (snapshot.pending, snapshot.running, snapshot.nodes) if each is not None)


def size(snapshot: QueueSnapshot) -> str:
    """The upper bound of the power of ten that holds the number of records: `100`, `1000` and so on."""
    return str(10 ** max(2, len(str(max(records(snapshot) - 1, 0)))))
