"""Sends heartbeats by HTTP while NATS is unreachable, and handles the gateway's replies."""

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
from clusterra_edge_agent.substrate.change_signal import ChangeSignal

log = structlog.get_logger(__name__)

FALLBACK_AFTER_SECONDS = 10.0
"""How long NATS must be unreachable before the fallback begins."""
CONNECTED_SECONDS = 15.0
"""How long a reply counts as a connection."""
LIMIT_SECONDS = 30.0


class ExchangeFailed(Exception):
    """A heartbeat got no reply, and may or may not have arrived. The gateway may ask for a pause."""

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


type Exchange = Callable[[Heartbeat], Awaitable[DesiredState | None]]
"""Sends a heartbeat and returns the last desired state, or None for no opinion. Raises ExchangeFailed."""


class HttpFallback:
    """The HTTP route to the central side. It ends as soon as NATS is back: the two routes are never used together.

    The gateway may still publish the heartbeat whose request was under way at that moment. It then arrives after newer
    ones, and receivers ignore it because of its lower generation.
    """

    def __init__(
        self,
        client: bus.Client,
        build: Callable[[], Awaitable[Heartbeat]],
        latest: LatestDesired,
        may_report: Callable[[], bool] = lambda: True,
    ) -> None:
        """`build` returns the next heartbeat; `may_report`: see `Leadership`."""
        self._client = client
        self._build = build
        self._latest = latest
        self._may_report = may_report
        self._answered_at: float | None = None
        self._due = asyncio.Event()
        self._asked: list[asyncio.Future[DesiredState | None]] = []
        """Those who wait for the reply to the next heartbeat."""

    @property
    def connected(self) -> bool:
        """Whether the gateway replied within the last 15 s."""
        return self._answered_at is not None and time.monotonic() - self._answered_at < CONNECTED_SECONDS

    async def read_newest(self) -> DesiredState | None:
        """Sends the next heartbeat at once, and returns the desired state of its reply; None without one."""
        answer: asyncio.Future[DesiredState | None] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._due.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECTED_SECONDS):
                return await answer
        return None

    async def run(
        self, open_exchange: Callable[[], AbstractAsyncContextManager[Exchange]], *signals: ChangeSignal
    ) -> None:
        """Sends a heartbeat every 5 s and at every change once NATS has been away for 10 s. Runs until cancelled."""
        due = self._due
        for signal in signals:
            signal.listen(due)
        while True:
            if await self._client.wait_connected(FALLBACK_AFTER_SECONDS):
                await self._client.wait_lost()
                continue
            log.warning("heartbeats_by_http", nats_away_seconds=FALLBACK_AFTER_SECONDS)
            async with open_exchange() as exchange, asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send_heartbeats(exchange, due))
                await self._client.wait_connected(None)
                sending.cancel()
            log.info("heartbeats_by_nats")

    async def _send_heartbeats(self, exchange: Exchange, due: asyncio.Event) -> None:
        failures = 0
        while True:
            due.clear()
            if not self._may_report():
                await due.wait()
                continue
            asked, self._asked = self._asked, []
            try:
                reply = await exchange(await self._build())
                self._handle_reply(reply)
                _answer(asked, reply)
            except ExchangeFailed as error:
                _answer(asked, None)
                failures += 1
                pause_seconds = max(error.retry_after_seconds, _jittered_backoff_seconds(failures))
                log.warning("heartbeat_not_answered", reason=str(error), again_in_seconds=round(pause_seconds, 1))
                await asyncio.sleep(pause_seconds)
                continue
            failures = 0
            await asyncio.sleep(EVERY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS - EVERY_SECONDS):
                    await due.wait()

    def _handle_reply(self, desired: DesiredState | None) -> None:
        connected = self.connected
        self._answered_at = time.monotonic()
        if desired is not None:
            try:
                self._latest.offer_news(desired)
            except OSError as error:
                log.warning("desired_state_not_kept", reason=str(error))
        if not connected:
            # What could not be done without a connection is done now, even if the desired state is not new.
            self._latest.change_signal.notify()


def _answer(asked: list[asyncio.Future[DesiredState | None]], reply: DesiredState | None) -> None:
    for each in asked:
        if not each.done():
            each.set_result(reply)


def _jittered_backoff_seconds(failures: int) -> float:
    # With jitter, so that the edges of a gateway that was down do not all return at once.
    return backoff_seconds(failures, limit_seconds=LIMIT_SECONDS) * random.uniform(0.5, 1.0)  # noqa: S311
