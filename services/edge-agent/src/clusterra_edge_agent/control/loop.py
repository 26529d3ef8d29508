"""The control loop: reconciles the workers with the desired state, again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.heartbeat import Applied
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState
from clusterra_runtime import trace, tracing
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Histogram

from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.control.unregistered import add_unregistered_victims
from clusterra_edge_agent.substrate.change_signal import ChangeSignal
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0

APPLY_SECONDS = Histogram(
    "clusterra_edge_apply_seconds",
    "Time from a decision until the substrate has accepted it",
    buckets=LATENCY_BUCKETS_SECONDS,
)


class NewestCheck:
    """Compares the desired state that is being applied with the newest one."""

    def __init__(
        self,
        desired: DesiredState,
        latest: LatestDesired,
        read_newest: Callable[[], Awaitable[DesiredState | None]],
        may_act: Callable[[], bool],
    ) -> None:
        self._desired = desired
        self._latest = latest
        self._read_newest = read_newest
        self._may_act = may_act

    def is_current(self) -> bool:
        """See `DesiredCheck.is_current`."""
        current = self._latest.current
        return current is not None and current.order == self._desired.order and self._may_act()

    async def look_again(self) -> bool:
        """See `DesiredCheck.look_again`."""
        if not self.is_current():
            return False
        newest = await self._read_newest()
        if newest is None or newest.order < self._desired.order:
            raise SubstrateUnavailable("the newest desired state cannot be read, so nothing is removed")
        return self.is_current()


class ControlLoop:
    """Applies the latest desired state, and applies it again whenever the workers change.

    It changes nothing while the agent is disconnected, because the scaler could not replace an outdated desired state
    then. It changes nothing while another agent may act.
    """

    def __init__(
        self,
        latest: LatestDesired,
        substrate: Substrate,
        read_newest: Callable[[], Awaitable[DesiredState | None]],
        may_act: Callable[[], bool],
    ) -> None:
        """`read_newest` reads the stored desired state and offers it to `latest`; None when it cannot be read."""
        self.change_signal = ChangeSignal()
        self.applied: Applied | None = None
        self._latest = latest
        self._substrate = substrate
        self._read_newest = read_newest
        self._may_act = may_act

    async def run(self, *signals: ChangeSignal) -> None:
        """Runs until cancelled; `signals` are further reasons for a pass."""
        changed = asyncio.Event()
        for signal in (self._latest.change_signal, self._substrate.change_signal, *signals):
            signal.listen(changed)
        while True:
            changed.clear()
            retry_after_seconds = await self._converge()
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_after_seconds):
                    await changed.wait()

    async def _converge(self) -> float | None:
        """Does everything that can be done now. Returns the seconds until a retry, or None when none is needed."""
        desired = self._latest.current
        if desired is None or not self._may_act():
            return None
        with trace.extract({TRACEPARENT: self._latest.traceparent} if self._latest.traceparent else None):
            try:
                with_victims = add_unregistered_victims(desired, await self._substrate.workers())
                retry_after_seconds = await self._substrate.apply(
                    with_victims, NewestCheck(desired, self._latest, self._read_newest, self._may_act)
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
        attributes = {"clusterra.generation": desired.generation, "clusterra.fence": desired.fence}
        with tracing.span("apply", attributes=attributes, start=self._latest.received_at):
            log.info("desired_state_applied", generation=desired.generation, fence=desired.fence)
        self.change_signal.notify()
