"""Where decisions are computed, so that a long one delays neither the event loop nor the decisions of others.

A small observation is decided on the event loop, which takes a few milliseconds. A large one takes seconds, so it is
decided on a thread, one after the other.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from clusterra_contracts.queue import QueueSnapshot

SMALL_RECORDS = 500
"""Groups of pending jobs, running jobs and nodes of a small snapshot together."""


class DecisionLanes:
    """Runs computations: small ones at once, large ones beside the event loop, one after the other."""

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-decisions")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._large.shutdown(wait=False, cancel_futures=True)

    async def run[T](self, snapshot: QueueSnapshot, compute: Callable[[], T]) -> T:
        """Return what `compute` returns for a snapshot. The caller waits, other tasks go on."""
        if records(snapshot) <= SMALL_RECORDS:
            return compute()
        return await asyncio.get_running_loop().run_in_executor(self._large, compute)


def records(snapshot: QueueSnapshot) -> int:
    """How many records a snapshot has, which its decision's time grows with."""
    return sum(len(each) for each in (snapshot.pending, snapshot.running, snapshot.nodes) if each is not None)


def size(snapshot: QueueSnapshot) -> str:
    """The upper bound of the power of ten that holds the number of records: `100`, `1000` and so on."""
    return str(10 ** max(2, len(str(max(records(snapshot) - 1, 0)))))
