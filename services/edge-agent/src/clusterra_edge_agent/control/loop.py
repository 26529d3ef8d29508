"""The control loop: what is desired and what there is, again and again, until they are the same."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.heartbeat import Applied
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState
from clusterra_runtime import trace
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Histogram

from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.control.unregistered import with_unregistered
from clusterra_edge_agent.substrate.changes import Changes
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0

APPLY_SECONDS = Histogram(
    "clusterra_edge_apply_seconds",
    "From a decision to its acceptance by the substrate",
    buckets=LATENCY_BUCKETS_SECONDS,
)


class Controller:
    """Carries out the latest desired state, and again whenever the workers change.

    Without a connection it changes nothing: nobody could take back then what it does. Nor does it while another agent
    may act.
    """

    def __init__(self, latest: LatestDesired, substrate: Substrate, may_act: Callable[[], bool]) -> None:
        self.changes = Changes()
        self.applied: Applied | None = None
        self._latest = latest
        self._substrate = substrate
        self._may_act = may_act

    async def run(self, *changes: Changes) -> None:
        """Look again at these changes too; runs until cancelled."""
        changed = asyncio.Event()
        for source in (self._latest.changes, self._substrate.changes, *changes):
            source.listen(changed)
        while True:
            changed.clear()
            retry_after_seconds = await self._converge()
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_after_seconds):
                    await changed.wait()

    async def _converge(self) -> float | None:
        """Do what is to be done now; after how many seconds to try again what could not be done, None for nothing."""
        desired = self._latest.current
        if desired is None or not self._may_act():
            return None
        with trace.extract({TRACEPARENT: self._latest.traceparent} if self._latest.traceparent else None):
            try:
                present = with_unregistered(desired, await self._substrate.workers())
                retry_after_seconds = await self._substrate.apply(
                    present, lambda: self._latest.current is desired and self._may_act()
                )
            except SubstrateUnavailable as error:
                log.warning("substrate_unavailable", reason=str(error))
                return RETRY_SECONDS
            if retry_after_seconds is None:
                self._note_applied(desired)
            return retry_after_seconds

    def _note_applied(self, desired: DesiredState) -> None:
        if self.applied is not None and (self.applied.fence, self.applied.generation) == desired.order:
            return
        self.applied = Applied(generation=desired.generation, fence=desired.fence, applied_at=now())
        APPLY_SECONDS.observe((self.applied.applied_at - desired.decided_at).total_seconds())
        log.info("desired_state_applied", generation=desired.generation, fence=desired.fence)
        self.changes.tell()
