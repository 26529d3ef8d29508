"""The latest desired state: a push when it changes, and the stored one whenever a push may have been missed."""

import asyncio
from contextlib import suppress
from pathlib import Path

import structlog
from clusterra_contracts.bus import subjects, topology
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.scale import DesiredState
from clusterra_runtime import trace
from clusterra_runtime.nats import bus
from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.substrate import state_files as state
from clusterra_edge_agent.substrate.changes import Changes

log = structlog.get_logger(__name__)

READ_AGAIN_SECONDS = 30.0
RETRY_SECONDS = 1.0


class _Order(BaseModel):
    """The order of a desired state, fence first."""

    model_config = ConfigDict(frozen=True)

    fence: int
    generation: int


class LatestDesired:
    """Takes desired states in whatever order they come and keeps the highest.

    Its order is on disk before anybody acts on it, so that a restart does not obey an older one either: by then a
    newer scaler may already have decided against it.
    """

    def __init__(self, folder: Path) -> None:
        """Raises state.StateUnreadable."""
        self.changes = Changes()
        self.current: DesiredState | None = None
        self.traceparent: str | None = None
        """The trace in which the current state was received."""
        self._file = folder / "order.json"
        kept = state.read(self._file, _Order)
        self._highest = (kept.fence, kept.generation) if kept else (0, 0)

    def offer(self, desired: DesiredState) -> bool:
        """Take a state unless a higher one was taken before; whether it was taken. Raises OSError."""
        if desired.order < self._highest:
            log.info("older_desired_state_ignored", order=desired.order, highest=self._highest)
            return False
        if desired.order > self._highest:
            state.write(self._file, _Order(fence=desired.fence, generation=desired.generation))
            self._highest = desired.order
        self.current, self.traceparent = desired, trace.current()
        self.changes.tell()
        return True


async def follow(client: bus.Client, ref: ClusterRef, latest: LatestDesired) -> None:
    """Offer every desired state of a cluster to `latest`; runs until cancelled."""
    missed = asyncio.Event()

    async def take(_about: Subject, desired: DesiredState) -> None:
        latest.offer(desired)

    await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, take)
    forget = client.on_reconnect(missed.set)
    try:
        while True:
            missed.clear()
            pause_seconds = READ_AGAIN_SECONDS if await _read_last(client, ref, latest) else RETRY_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_seconds):
                    await missed.wait()
    finally:
        forget()


async def _read_last(client: bus.Client, ref: ClusterRef, latest: LatestDesired) -> bool:
    """Offer what is stored; whether that was read."""
    try:
        found = await bus.last(client, topology.SCALE.name, subjects.scale_desired(ref), DesiredState)
        if found is not None:
            latest.offer(found[0])
    except InvalidMessage as error:
        # Until another is stored there is nothing to be read.
        log.warning("stored_desired_state_invalid", reason=str(error))
    except (bus.BusUnavailable, OSError) as error:
        log.warning("stored_desired_state_not_read", reason=str(error))
        return False
    return True
