"""Where decisions are computed, so that a long one delays neither the event loop nor the decisions of others.

A small observation is decided on the event loop, which takes a few milliseconds. In each iteration of the loop, one
cluster at most begins to decide. Larger ones are decided on threads, one for each order of magnitude, and on each
thread one after the other. The interpreter hands over between threads every fifth of a millisecond, so that the event
loop goes on meanwhile. Clusters with large snapshots have a process of their own (`large_process`), with its
own lanes.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from clusterra_contracts.demand import node_count
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.shared_rate import SharedRate
from clusterra_runtime.turns import Turns

from clusterra_scaler.planner.placement.node_bounds import MAX_NODES
from clusterra_scaler.planner.time_limit import time_limit

SMALL_QUEUE = 500
"""Pending jobs and array tasks, times their nodes, running jobs and nodes of a small snapshot together."""
MEDIUM_QUEUE = 5_000
"""Of a medium snapshot, whose decision takes less than a second and does not wait for those that take longer."""
MAX_CPU_SECONDS = 30.0
"""Of one decision. Ten times the time of 50,000 jobs and 5,000 workers."""
TICK_SECONDS_PER_CLUSTER = 0.01
"""So at most 100 decisions a second are made because of the time alone. Without a bound, those of 1,000 clusters leave
no time for the clusters that wait for an answer (docs/operations/capacity.md)."""


class DecisionLanes:
    """Runs computations: small ones at once, larger ones beside the event loop, one after the other."""

    def __init__(self) -> None:
        self.ticks = SharedRate(TICK_SECONDS_PER_CLUSTER)
        """The decisions that only the passing of time causes. All clusters that are decided on here share them."""
        self.turns = Turns()
        """A cluster takes a turn before it looks at its inputs and decides."""
        self._medium = ThreadPoolExecutor(1, thread_name_prefix="medium-decisions")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-decisions")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in (self._medium, self._large):
            lane.shutdown(wait=False, cancel_futures=True)

    async def run[T](self, snapshot: QueueSnapshot, compute: Callable[[], T]) -> T:
        """Return what `compute` returns for a snapshot. The caller waits, other tasks go on. Raises DecisionOverdue."""
        number = jobs_and_nodes(snapshot)
        if number <= SMALL_QUEUE:
            return _within_limit(compute)
        lane = self._medium if number <= MEDIUM_QUEUE else self._large
        return await asyncio.get_running_loop().run_in_executor(lane, _within_limit, compute)


def _within_limit[T](compute: Callable[[], T]) -> T:
    with time_limit(MAX_CPU_SECONDS):
        return compute()


def jobs_and_nodes(snapshot: QueueSnapshot) -> int:
    """How many jobs and nodes a snapshot tells of, which its decision's time grows with.

    Each task of an array that may start counts: 490 arrays of 40 tasks take a second. So does each node of a job.
    """
    pending = sum(max(each.count, 1) * min(node_count(each), MAX_NODES) for each in snapshot.pending or ())
    return pending + len(snapshot.running or ()) + len(snapshot.nodes or ())


def size(snapshot: QueueSnapshot) -> str:
    """The upper bound of the power of ten that holds the number of jobs and nodes: `100`, `1000` and so on."""
    return str(10 ** max(2, len(str(max(jobs_and_nodes(snapshot) - 1, 0)))))
