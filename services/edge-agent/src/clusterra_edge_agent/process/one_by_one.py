"""Applies a desired state one worker at a time, for substrates that start and remove individual workers."""

import asyncio
from typing import Protocol

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec
from prometheus_client import Counter

from clusterra_edge_agent.process.reconcile import Remove, Start, reconcile
from clusterra_edge_agent.substrate.port import DesiredCheck

log = structlog.get_logger(__name__)

STARTS_PER_BATCH = 8
"""A start blocks the event loop for 1 to 3 ms. After this many starts, heartbeats and log reads get a turn."""

BUSY_RETRY_SECONDS = 5.0
"""When to try again to remove a worker on which a job runs, unless a newer desired state arrives."""

STARTED = Counter("clusterra_edge_workers_started_total", "Workers whose start the substrate accepted")
REMOVED = Counter("clusterra_edge_workers_removed_total", "Victims whose removal the substrate accepted")
REMOVALS_REFUSED = Counter(
    "clusterra_edge_removals_refused_total", "Removals of victims that were refused because a job ran there"
)
REFUSED = Counter("clusterra_edge_starts_refused_total", "Workers that the substrate could not start")


class StartFailed(Exception):
    """A worker could not be started. Retry after `retry_after_seconds`."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class WorkerBusy(Exception):
    """A job runs on the worker, so it is not removed."""


class IndividualWorkers(Protocol):
    """Starts and removes workers. All methods raise SubstrateUnavailable."""

    async def workers(self) -> tuple[Worker, ...]:
        """Returns all workers."""

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        """Starts one worker, and returns when the start is accepted. Raises StartFailed."""

    async def remove(self, name: WorkerName) -> None:
        """Removes one worker, and returns when the removal is accepted. A missing worker is no error.

        Raises WorkerBusy.
        """


async def apply_one_by_one(desired: DesiredState, check: DesiredCheck, workers: IndividualWorkers) -> float | None:
    """Applies as much of the desired state as possible now; see `Substrate.apply`. Raises SubstrateUnavailable."""
    waits: list[float] = []
    for action in reconcile(desired, await workers.workers()):
        match action:
            case Remove():
                if not await check.look_again():
                    return 0.0
                if (wait := await _remove(action, workers)) is not None:
                    waits.append(wait)
            case Start():
                if (wait := await _start(action, check, workers)) is not None:
                    waits.append(wait)
    return min(waits, default=None)


async def _remove(removal: Remove, workers: IndividualWorkers) -> float | None:
    name = removal.name
    if removal.unregistered and name in {each.name for each in await workers.workers() if each.phase == "running"}:
        log.info("worker_serves_after_all", worker=name)
        return None
    try:
        await workers.remove(name)
    except WorkerBusy as error:
        REMOVALS_REFUSED.inc()
        log.warning("removal_refused", worker=name, reason=str(error))
        return BUSY_RETRY_SECONDS
    REMOVED.inc()
    log.info("worker_removed", worker=name)
    return None


async def _start(start: Start, check: DesiredCheck, workers: IndividualWorkers) -> float | None:
    for missing in range(start.count, 0, -1):
        if not check.is_current():
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
