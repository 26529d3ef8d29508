"""Heartbeats by HTTP for as long as NATS cannot be reached, and what the gateway answers."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress

import structlog
from clusterra_contracts.agent_http import EVERY_SECONDS
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import bus

from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.substrate.backoff import backoff_seconds
from clusterra_edge_agent.substrate.changes import Changes

log = structlog.get_logger(__name__)

AFTER_SECONDS = 10.0
"""For how long NATS is waited for first."""
CONNECTED_SECONDS = 15.0
"""For how long an answer counts as a connection."""
LIMIT_SECONDS = 30.0


class ExchangeFailed(Exception):
    """A heartbeat has no answer; whether it arrived is not known. The gateway may ask for a pause."""

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


type Exchange = Callable[[Heartbeat], Awaitable[DesiredState | None]]
"""Sends a heartbeat and returns the last desired state; None is no opinion. Raises ExchangeFailed."""


class Fallback:
    """The other way to the centre. It is left at the moment NATS is back: there is never one beside the other."""

    def __init__(
        self,
        client: bus.Client,
        make: Callable[[], Awaitable[Heartbeat]],
        latest: LatestDesired,
        speaks: Callable[[], bool] = lambda: True,
    ) -> None:
        """`speaks`: see `Leadership`."""
        self._client = client
        self._make = make
        self._latest = latest
        self._speaks = speaks
        self._answered_at: float | None = None

    @property
    def connected(self) -> bool:
        """Whether the gateway answered within the last 15 s."""
        return self._answered_at is not None and time.monotonic() - self._answered_at < CONNECTED_SECONDS

    async def run(self, opened: Callable[[], AbstractAsyncContextManager[Exchange]], *changes: Changes) -> None:
        """Whenever NATS has been away for 10 s: send one every 5 s and at every change. Runs until cancelled."""
        due = asyncio.Event()
        for source in changes:
            source.listen(due)
        while True:
            if await self._client.wait_connected(AFTER_SECONDS):
                await self._client.wait_lost()
                continue
            log.warning("heartbeats_by_http", nats_away_seconds=AFTER_SECONDS)
            async with opened() as exchange, asyncio.TaskGroup() as tasks:
                beating = tasks.create_task(self._beat(exchange, due))
                await self._client.wait_connected(None)
                beating.cancel()
            log.info("heartbeats_by_nats")

    async def _beat(self, exchange: Exchange, due: asyncio.Event) -> None:
        failures = 0
        while True:
            due.clear()
            if not self._speaks():
                await due.wait()
                continue
            try:
                self._take(await exchange(await self._make()))
            except ExchangeFailed as error:
                failures += 1
                pause_seconds = max(error.retry_after_seconds, _backoff_seconds(failures))
                log.warning("heartbeat_not_answered", reason=str(error), again_in_seconds=round(pause_seconds, 1))
                await asyncio.sleep(pause_seconds)
                continue
            failures = 0
            await asyncio.sleep(EVERY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS - EVERY_SECONDS):
                    await due.wait()

    def _take(self, desired: DesiredState | None) -> None:
        connected = self.connected
        self._answered_at = time.monotonic()
        if desired is not None:
            try:
                self._latest.offer(desired)
            except OSError as error:
                log.warning("desired_state_not_kept", reason=str(error))
        if not connected:
            # What could not be done without a connection is done now, also when nothing new is desired.
            self._latest.changes.tell()


def _backoff_seconds(failures: int) -> float:
    # Not all edges of a gateway that was away come back at the same moment.
    return backoff_seconds(failures, limit_seconds=LIMIT_SECONDS) * random.uniform(0.5, 1.0)  # noqa: S311
