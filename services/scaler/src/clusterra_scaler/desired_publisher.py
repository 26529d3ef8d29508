"""Publishes a cluster's desired state: the newest one only, apart from the events about it.

The record holds the newest desired state, and each new holder of the lease publishes it again under its own fence. So
nothing needs to be stored for a publisher that dies.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from prometheus_client import Gauge

from clusterra_scaler.planner.observed.state import FleetState

log = structlog.get_logger(__name__)

ATTEMPT_SECONDS = 2.0
"""How long an attempt may take. The caller waits for the first one."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0

UNPUBLISHED = Gauge(
    "clusterra_scaler_desired_unpublished", "Clusters whose newest desired state NATS has not taken yet"
)


class DesiredPublisher:
    """Publishes the desired states of one cluster in their order, and skips those that a newer one supersedes."""

    def __init__(self, ref: ClusterRef, client: Client, may_publish: Callable[[], bool]) -> None:
        """`may_publish` tells whether the lease is held. Without it nothing is published: the next holder does it, or
        this one, if it turns out that it still holds the lease.
        """
        self._ref = ref
        self._client = client
        self._may_publish = may_publish
        self._newest: FleetState | None = None
        """The recorded state that is not published yet."""
        self._retrying: asyncio.Task[None] | None = None

    async def publish(self, state: FleetState) -> None:
        """Publish the desired state of a recorded state. If NATS does not take it now, it is tried again."""
        self._newest = state
        if self._retrying is None and not await self._attempt():
            self._retrying = asyncio.create_task(self._retry(), name=f"publish-desired-{self._ref.key}")

    async def close(self) -> None:
        """End the attempts."""
        if self._retrying is not None:
            self._retrying.cancel()
            with suppress(asyncio.CancelledError):
                await self._retrying

    async def _retry(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        with UNPUBLISHED.track_inprogress():
            while True:
                await backoff.pause()
                if await self._attempt():
                    break
        self._retrying = None

    async def _attempt(self) -> bool:
        """Publish the newest state; returns whether none is left to publish."""
        state = self._newest
        if state is None:
            return True
        if not self._may_publish():
            return False
        subject, message_id = subjects.scale_desired(self._ref), f"{self._ref.key}:{state.generation}"
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await bus.publish_durable(self._client, subject, state.desired(), message_id=message_id)
        except (bus.BusUnavailable, bus.MessageRejected, TimeoutError) as error:
            log.warning("desired_state_not_published", generation=state.generation, reason=str(error) or "no answer")
            return False
        if self._newest is not state:
            return False
        self._newest = None
        return True
