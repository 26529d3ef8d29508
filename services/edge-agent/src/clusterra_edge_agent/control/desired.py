"""Follows the latest desired state: a push when it changes, and a read whenever a push may have been missed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from clusterra_contracts.bus import subjects, topology
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState
from clusterra_runtime import trace
from clusterra_runtime.nats import bus
from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.control.start_traces import StartTraces
from clusterra_edge_agent.substrate import state_files
from clusterra_edge_agent.substrate.change_signal import ChangeSignal

log = structlog.get_logger(__name__)

REREAD_SECONDS = 30.0
RETRY_SECONDS = 1.0


class _Order(BaseModel):
    """The order of a desired state: fence first, then generation."""

    model_config = ConfigDict(frozen=True)

    fence: int
    generation: int


class LatestDesired:
    """Accepts desired states in any order and keeps the highest.

    The highest order is on disk before anyone acts on the state. So an agent that restarts cannot apply an older state
    either, even if it receives that state first.
    """

    def __init__(self, folder: Path) -> None:
        """Raises state_files.StateUnreadable."""
        self.change_signal = ChangeSignal()
        self.current: DesiredState | None = None
        self.traceparent: str | None = None
        """The trace in which the current state was received first."""
        self.received_at = now()
        """When the current state was received first."""
        self.starts = StartTraces()
        self._file = folder / "order.json"
        stored = state_files.read(self._file, _Order)
        self._highest = (stored.fence, stored.generation) if stored else (0, 0)

    def offer(self, desired: DesiredState) -> bool:
        """Accepts a state unless a higher one was accepted before. Returns whether it was accepted. Raises OSError."""
        if desired.order < self._highest:
            log.info("older_desired_state_ignored", order=desired.order, highest=self._highest)
            return False
        repeated = self.current is not None and desired.order == self.current.order
        if desired.order > self._highest:
            state_files.write(self._file, _Order(fence=desired.fence, generation=desired.generation))
            self._highest = desired.order
        self.current = desired
        if not repeated:
            self.traceparent, self.received_at = trace.current(), now()
            self.starts.note(desired, self.traceparent or "", self.received_at)
        self.change_signal.notify()
        return True

    def offer_news(self, desired: DesiredState) -> None:
        """Offers a state that was read again: the current one is no news. Raises OSError."""
        if self.current is None or desired.order != self.current.order:
            self.offer(desired)


async def follow(client: bus.Client, ref: ClusterRef, latest: LatestDesired) -> None:
    """Offers every desired state of a cluster to `latest`, until cancelled."""
    missed = asyncio.Event()

    async def take(_subject: Subject, desired: DesiredState) -> None:
        latest.offer(desired)

    await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, take)
    unsubscribe = client.on_reconnect(missed.set)
    try:
        while True:
            missed.clear()
            pause_seconds = REREAD_SECONDS if await _read_last(client, ref, latest.offer) else RETRY_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_seconds):
                    await missed.wait()
    finally:
        unsubscribe()


async def read_newest(client: bus.Client, ref: ClusterRef, latest: LatestDesired) -> DesiredState | None:
    """Reads the stored state again and offers it to `latest`. Returns None when it cannot be read."""
    read: list[DesiredState] = []

    def take(desired: DesiredState) -> None:
        latest.offer_news(desired)
        read.append(desired)

    await _read_last(client, ref, take)
    return read[0] if read else None


async def _read_last(client: bus.Client, ref: ClusterRef, take: Callable[[DesiredState], object]) -> bool:
    """Passes the stored state on. Returns whether it could be read."""
    try:
        found = await bus.last(client, topology.SCALE.name, subjects.scale_desired(ref), DesiredState)
        if found is not None:
            take(found[0])
    except InvalidMessage as error:
        # Reading it again is useless until another state is stored.
        log.warning("stored_desired_state_invalid", reason=str(error))
    except (bus.BusUnavailable, OSError) as error:
        log.warning("stored_desired_state_not_read", reason=str(error))
        return False
    return True
