"""Applies a desired state one worker at a time, for substrates that start and remove individual workers."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec
from prometheus_client import Counter

from clusterra_edge_agent.process.reconcile import Remove, Start, reconcile

log = structlog.get_logger(__name__)

STARTS_PER_BATCH = 8
"""A start blocks the event loop for 1 to 3 ms. After this many starts, heartbeats and log reads get a turn."""

STARTED = Counter("clusterra_edge_workers_started_total", "Workers whose start the substrate accepted")
REMOVED = Counter("clusterra_edge_workers_removed_total", "Victims whose removal the substrate accepted")
REFUSED = Counter("clusterra_edge_starts_refused_total", "Workers that the substrate could not start")


class StartFailed(Exception):
    """A worker could not be started. Retry after `retry_after_seconds`."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class IndividualWorkers(Protocol):
    """Starts and removes workers. All methods raise SubstrateUnavailable."""

    async def workers(self) -> tuple[Worker, ...]:
        """Returns all workers."""

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        """Starts one worker, and returns when the start is accepted. Raises StartFailed."""

    async def remove(self, name: WorkerName) -> None:
        """Removes one worker, and returns when the removal is accepted. A missing worker is no error."""


async def apply_one_by_one(
    desired: DesiredState, is_current: Callable[[], bool], workers: IndividualWorkers
) -> float | None:
    """Applies as much of the desired state as possible now; see `Substrate.apply`. Raises SubstrateUnavailable."""
    waits: list[float] = []
    for action in reconcile(desired, await workers.workers()):
        match action:
            case Remove(name):
                await workers.remove(name)
                REMOVED.inc()
                log.info("worker_removed", worker=name)
            case Start():
                if (wait := await _start(action, is_current, workers)) is not None:
                    waits.append(wait)
    return min(waits, default=None)


async def _start(start: Start, is_current: Callable[[], bool], workers: IndividualWorkers) -> float | None:
    for missing in range(start.count, 0, -1):
        if not is_current():
            return 0.0
        try:
            name = await workers.start(start.shape, start.spec)
        except StartFailed as error:
            REFUSED.inc(missing)
            log.warning("start_refused", shape=start.shape, workers=missing, reason=str(error))
            return error.retry_after_seconds
        STARTED.inc()
        log.info("worker_started", worker=name)
        if missing % STARTS_PER_BATCH == 0:
            await asyncio.sleep(0)
    return None
