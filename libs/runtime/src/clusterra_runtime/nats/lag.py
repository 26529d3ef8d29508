"""The lag of a durable consumer as metrics: from its messages, and from the server when no message arrives.

Messages alone cannot tell: after the last one of a burst nothing would lower the lag, and with a stuck consumer nothing
would raise it.
"""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime

import nats.errors
import structlog
from clusterra_contracts.bus.topology import Consumer
from nats.aio.msg import Msg

from clusterra_runtime.metrics import CONSUMER_LAG_SECONDS, CONSUMER_PENDING
from clusterra_runtime.nats.client import Client

log = structlog.get_logger(__name__)

POLL_SECONDS = 20.0
_ANSWER_SECONDS = 5.0


class Lag:
    """The two gauges of one durable consumer, from `start` to `stop`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._floor: int | None = None
        self._seconds = 0.0
        self._heard = False
        self._noted = 0
        """Counts the calls of `delivered` and `handled`."""
        self._moved_at = time.monotonic()
        self._polling: asyncio.Task[None] | None = None

    def start(self, client: Client) -> None:
        """Begin to ask the server every POLL_SECONDS."""
        self._floor = None
        self._polling = asyncio.create_task(self._poll(client), name=f"lag-{self._consumer.name}")

    async def stop(self) -> None:
        """Stop asking, and remove the gauges: another replica may handle the messages from now on."""
        polling, self._polling = self._polling, None
        if polling is not None:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        for gauge in (CONSUMER_PENDING, CONSUMER_LAG_SECONDS):
            with suppress(KeyError):
                gauge.remove(self._consumer.name)

    def delivered(self, message: Msg) -> None:
        """Note a message that has arrived."""
        self._heard = True
        self._noted += 1
        age = (datetime.now(UTC) - message.metadata.timestamp).total_seconds()
        self._set(message.metadata.num_pending, max(age, 0.0))

    def handled(self, message: Msg) -> None:
        """Note a message that needs no further delivery."""
        self._noted += 1
        if message.metadata.num_pending == 0:
            self._set(0, 0.0)

    def _set(self, pending: int, seconds: float) -> None:
        self._seconds = seconds
        CONSUMER_PENDING.labels(self._consumer.name).set(pending)
        CONSUMER_LAG_SECONDS.labels(self._consumer.name).set(seconds)

    async def _poll(self, client: Client) -> None:
        while True:
            try:
                await self._look(client)
            except (nats.errors.Error, TimeoutError) as error:
                # The gauges keep their values; clusterra_nats_connected and the unserved pulls tell of the cause.
                log.debug("consumer_lag_unknown", consumer=self._consumer.name, reason=repr(error))
            except Exception:
                # A mistake here must not end the measurement.
                log.exception("consumer_lag_failed", consumer=self._consumer.name)
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self, client: Client) -> None:
        noted = self._noted
        async with client.while_connected(_ANSWER_SECONDS):
            info = await client.jetstream().consumer_info(
                self._consumer.stream, self._consumer.name, timeout=_ANSWER_SECONDS
            )
        if self._noted != noted:
            return  # a message that came meanwhile knows more than this answer
        pending, unacknowledged = info.num_pending or 0, info.num_ack_pending or 0
        floor = info.ack_floor.stream_seq if info.ack_floor is not None else 0
        if not pending and not unacknowledged:
            self._floor = None
            self._set(0, 0.0)
            return
        heard, self._heard = self._heard, False
        if floor != self._floor:
            self._floor, self._moved_at = floor, time.monotonic()
            # Without a message of its own since the last look, what this replica knows is of the past.
            self._set(pending, self._seconds if heard else 0.0)
        else:
            # The oldest message that is not settled has waited for at least this long.
            self._set(pending, max(time.monotonic() - self._moved_at, self._seconds))
