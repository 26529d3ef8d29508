"""The control loop: what is desired and what there is, again and again, until they are the same."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from clusterra_contracts.envelope import TRACEPARENT
from clusterra_contracts.heartbeat import Applied
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState
from clusterra_runtime import trace
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Counter, Histogram

from clusterra_edge_agent.changes import Changes
from clusterra_edge_agent.desired import LatestDesired
from clusterra_edge_agent.reconcile import Action, Remove, Start, reconcile
from clusterra_edge_agent.substrate import StartRefused, Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0
STARTS_PER_TURN = 8
"""A start blocks the event loop for 1 to 3 ms; heartbeats and log readers have their turn after so many."""

STARTED = Counter("clusterra_edge_workers_started_total", "Workers that the substrate accepted")
REMOVED = Counter("clusterra_edge_workers_removed_total", "Victims whose removal the substrate accepted")
REFUSED = Counter("clusterra_edge_starts_refused_total", "Workers that the substrate did not start")
APPLY_SECONDS = Histogram(
    "clusterra_edge_apply_seconds",
    "From a decision to its acceptance by the substrate",
    buckets=LATENCY_BUCKETS_SECONDS,
)


class Controller:
    """Carries out the latest desired state, and again whenever the workers change.

    Without a connection it changes nothing: nobody could take back then what it does.
    """

    def __init__(self, latest: LatestDesired, substrate: Substrate, connected: Callable[[], bool]) -> None:
        self.changes = Changes()
        self.applied: Applied | None = None
        self._latest = latest
        self._substrate = substrate
        self._connected = connected

    async def run(self) -> None:
        """Runs until cancelled."""
        changed = asyncio.Event()
        self._latest.changes.listen(changed)
        self._substrate.changes.listen(changed)
        while True:
            changed.clear()
            retry_after_seconds = await self._converge()
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_after_seconds):
                    await changed.wait()

    async def _converge(self) -> float | None:
        """Do what is to be done now; after how many seconds to try again what could not be done, None for nothing."""
        desired = self._latest.current
        if desired is None or not self._connected():
            return None
        with trace.extract({TRACEPARENT: self._latest.traceparent} if self._latest.traceparent else None):
            try:
                actions = reconcile(desired, await self._substrate.workers())
                waits = [wait for action in actions if (wait := await self._carry_out(action, desired)) is not None]
            except SubstrateUnavailable as error:
                log.warning("substrate_unavailable", reason=str(error))
                return RETRY_SECONDS
            if waits:
                return min(waits)
            self._note_applied(desired, actions)
            return None

    async def _carry_out(self, action: Action, desired: DesiredState) -> float | None:
        """Carry one out; after how many seconds to look again at what is left of it, None when nothing is."""
        match action:
            case Remove(name):
                await self._substrate.remove(name)
                REMOVED.inc()
                log.info("worker_removed", worker=name)
            case Start(shape, spec, count):
                for missing in range(count, 0, -1):
                    if self._latest.current is not desired:
                        return 0.0
                    try:
                        name = await self._substrate.start(shape, spec)
                    except StartRefused as error:
                        REFUSED.inc(missing)
                        log.warning("start_refused", shape=shape, workers=missing, reason=str(error))
                        return error.retry_after_seconds
                    STARTED.inc()
                    log.info("worker_started", worker=name)
                    if missing % STARTS_PER_TURN == 0:
                        await asyncio.sleep(0)
        return None

    def _note_applied(self, desired: DesiredState, actions: tuple[Action, ...]) -> None:
        if self.applied is not None and (self.applied.fence, self.applied.generation) == desired.order:
            return
        self.applied = Applied(generation=desired.generation, fence=desired.fence, applied_at=now())
        APPLY_SECONDS.observe((self.applied.applied_at - desired.decided_at).total_seconds())
        log.info("desired_state_applied", generation=desired.generation, fence=desired.fence, actions=len(actions))
        self.changes.tell()
