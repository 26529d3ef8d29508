"""Keeps the parts of a cluster's work running: a failure ends neither the process nor the other parts."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Counter

from clusterra_proxy.cluster.condition import Condition

log = structlog.get_logger(__name__)

STABLE_SECONDS = 30.0
"""A part that has run for this long without a failure counts as recovered."""
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0

FAILURES = Counter("clusterra_cluster_failures_total", "Unexpected failures of work for clusters, by part", ("part",))


class Supervisor:
    """Runs the parts of one cluster's work, each for ever. The cluster is degraded (`failed`) while a part fails.

    A part that fails starts again after a delay that grows from `RETRY_SECONDS` to `MAX_RETRY_SECONDS`. The delay is
    random in its upper half, so that many failing clusters do not start at once.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._failing: dict[str, str] = {}

    async def run(self, part: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a part until cancelled. `part` is one of few names: a label of the metric."""
        failures = 0
        try:
            while True:
                failure, stable = await self._run_once(part, work)
                failures = 1 if stable else failures + 1
                self._failing[part] = f"{part}: {failure}"
                FAILURES.labels(part).inc()
                self._tell()
                longest = min(RETRY_SECONDS * 2 ** (failures - 1), MAX_RETRY_SECONDS)
                await asyncio.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311
        finally:
            self._failing.pop(part, None)

    async def _run_once(self, part: str, work: Callable[[], Awaitable[None]]) -> tuple[str, bool]:
        """Run a part until it fails. Return the kind of failure, and whether it had run for `STABLE_SECONDS`.

        Only the type of an error is told: its text could hold anything, such as a line of a job's environment.
        """
        stable = False
        task = asyncio.ensure_future(work())
        try:
            await asyncio.wait({task}, timeout=STABLE_SECONDS)
            if not task.done():
                stable = True
                self._failing.pop(part, None)
                self._tell()
                await asyncio.wait({task})
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if error is None:
            log.error("cluster_part_ended", part=part)
            return "it ended", stable
        log.error("cluster_part_failed", part=part, exc_info=error)
        return ", ".join(sorted(_kinds(error))), stable

    def _tell(self) -> None:
        if self._failing:
            failing = "; ".join(self._failing[part] for part in sorted(self._failing))
            self._condition.degrade("failed", f"{failing}; it is tried again, and the proxy's log has the cause")
        else:
            self._condition.recover("failed")


def _kinds(error: BaseException) -> set[str]:
    if isinstance(error, BaseExceptionGroup):
        return {kind for each in error.exceptions for kind in _kinds(each)}
    return {type(error).__name__}
