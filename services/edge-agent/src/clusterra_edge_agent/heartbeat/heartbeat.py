"""Publishes heartbeats on NATS: every 5 s, and immediately after a change."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats import bus

from clusterra_edge_agent.substrate.change_signal import ChangeSignal

log = structlog.get_logger(__name__)

REST_FACTOR = 9.0
"""After each heartbeat the sender rests for this multiple of the CPU time it took, so that heartbeats use at most a
tenth of a core. With a few workers the rest is negligible. While thousands of workers boot, a few heartbeats are sent
per second, the first of them immediately."""


class Heartbeats:
    """Publishes the heartbeats of one cluster. While NATS is unreachable none is stored: it would be outdated."""

    def __init__(
        self,
        client: bus.Client,
        ref: ClusterRef,
        build: Callable[[], Awaitable[Heartbeat]],
        may_report: Callable[[], bool] = lambda: True,
    ) -> None:
        """`build` returns the next heartbeat; `may_report`: see `Leadership`."""
        self._client = client
        self._subject = subjects.heartbeat(ref)
        self._build = build
        self._may_report = may_report

    async def run(self, *signals: ChangeSignal) -> None:
        """Publishes a heartbeat at every change, after each connect and at least every 5 s, until cancelled.

        Changes that arrive while a heartbeat is built, or during the rest after it, are reported together.
        """
        due = asyncio.Event()
        for signal in signals:
            signal.listen(due)
        unsubscribe = self._client.on_reconnect(due.set)
        try:
            while True:
                due.clear()
                began_seconds = time.thread_time()
                if self._client.is_connected and self._may_report():
                    await self._send()
                await asyncio.sleep(REST_FACTOR * (time.thread_time() - began_seconds))
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await due.wait()
        finally:
            unsubscribe()

    async def _send(self) -> None:
        try:
            await bus.publish(self._client, self._subject, await self._build())
        except (bus.BusUnavailable, bus.MessageRejected) as error:
            log.warning("heartbeat_not_sent", reason=str(error))
