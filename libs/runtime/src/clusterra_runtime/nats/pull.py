"""Pull subscriptions: messages immediately when there are some, one waiting request when there are none.

nats-py's own `fetch` waits for its whole timeout on a connection that was renewed meanwhile, so it would need a short
timeout and many requests. It also repeats its requests to a missing consumer without a pause.
"""

import asyncio
import json
import random
from contextlib import suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

from clusterra_runtime.metrics import UNSERVED_PULLS
from clusterra_runtime.nats.connection import Connection

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 5.0
"""The server confirms a waiting request this often. After two intervals of silence the request is sent again."""
ANSWER_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
"""The pause between requests that no consumer answers; it doubles from the first to the longest."""

_ACKNOWLEDGE = "$JS.ACK."
_NO_CONSUMER = "503"
_HEARTBEAT = "100"
_EMPTY = frozenset({"404", "408"})


class Pull(JetStreamContext.PullSubscription):
    """A subscription to an existing pull consumer.

    At most one request is open at any time, and a waiting request asks for a single message. Messages are not buffered
    here while handlers are busy, so no other replica must wait `ack_wait` for messages of a process that ends.
    """

    def __init__(self, js: "JetStream", sub: Subscription, stream: str, consumer: str) -> None:
        super().__init__(js, sub, stream, consumer, sub.subject.removesuffix(".*").encode())
        self.consumer = f"{stream}/{consumer}"
        self.served = True
        """Whether the last request was answered. False means that the consumer does not exist at the moment."""
        self._connection = js.connection
        self._requests = 0
        self._more = True
        self._pause = FIRST_PAUSE_SECONDS

    async def fetch(self, batch: int = 1, timeout: float | None = 30.0, heartbeat: float | None = None) -> list[Msg]:
        """Returns up to `batch` messages as soon as there is one; an empty list after `timeout` seconds without any.

        It may return an empty list earlier: after a renewed connection, or when the server ended the request. Raises
        nats.errors.ConnectionClosedError once the connection is closed.
        """
        if self._connection.is_closed:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            raise nats.errors.ConnectionClosedError
        if messages := self._arrived(batch):
            return messages
        seconds = timeout or 30.0
        if not await self._connection.wait_connected(seconds):
            return []
        if self._more:
            messages = await self._request_messages({"batch": batch, "no_wait": True}, batch, ANSWER_SECONDS)
        if not messages:
            interval = min(heartbeat or HEARTBEAT_SECONDS, seconds / 3)
            waiting = {"batch": 1, "expires": _nanoseconds(seconds), "idle_heartbeat": _nanoseconds(interval)}
            messages = await self._request_messages(waiting, 1, 2 * interval)
        # A message tells how many are left after it, but not how many come again. While none does, a request that does
        # not wait would come back empty.
        last = messages[-1].metadata if messages else None
        self._more = last is not None and (last.num_pending > 0 or last.num_delivered > 1)
        return messages

    async def unsubscribe(self) -> None:
        """Stop; messages that arrived but were not fetched are returned to the stream immediately."""
        # Without a connection the server delivers them again after `ack_wait`.
        with suppress(nats.errors.Error):
            for message in self._arrived(self._sub.pending_msgs):
                await message.nak()
            await super().unsubscribe()

    def _arrived(self, limit: int) -> list[Msg]:
        messages: list[Msg] = []
        while len(messages) < limit and self._sub.pending_msgs:
            message = self._taken(self._sub._pending_queue.get_nowait())
            if not _status(message):
                messages.append(message)
        return messages

    async def _request_messages(self, request: dict[str, Any], limit: int, silence_seconds: float) -> list[Msg]:
        self._requests += 1
        inbox = f"{self._deliver}.{self._requests}"
        await self._connection.publish(self._nms, json.dumps(request).encode(), inbox)
        messages: list[Msg] = []
        while len(messages) < limit and (message := await self._next(silence_seconds)) is not None:
            status = _status(message)
            if not status:
                messages.append(message)
            elif message.subject == inbox and status == _HEARTBEAT:
                # The server holds the request, so the consumer exists.
                self._answered()
            elif message.subject == inbox:
                await self._request_ended(status, message)
                break
        if messages:
            self._answered()
        return messages

    async def _next(self, seconds: float) -> Msg | None:
        waiting = self._sub._pending_queue
        if waiting.empty():
            try:
                async with self._connection.while_connected(seconds):
                    return self._taken(await waiting.get())
            except (TimeoutError, nats.errors.ConnectionReconnectingError):
                # The server that held the request is away, and the request with it.
                return None
        return self._taken(waiting.get_nowait())

    def _taken(self, message: Msg) -> Msg:
        self._sub._pending_queue.task_done()
        self._sub._pending_size -= len(message.data)
        return message

    def _answered(self) -> None:
        if not self.served:
            log.info("nats_pull_served_again", consumer=self.consumer)
        self.served = True
        self._pause = FIRST_PAUSE_SECONDS

    async def _request_ended(self, status: str, message: Msg) -> None:
        if status in _EMPTY:
            self._answered()
            return
        if status == _NO_CONSUMER:
            UNSERVED_PULLS.labels(self.consumer).inc()
            if self.served:
                log.warning("nats_pull_unserved", consumer=self.consumer, hint="does `topology check` find it?")
            self.served = False
        else:
            reason = (message.headers or {}).get("Description")
            log.info("nats_pull_ended", consumer=self.consumer, status=status, reason=reason)
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


class JetStream(JetStreamContext):
    """JetStream with pull subscriptions to consumers that the topology declares: a service never creates one."""

    def __init__(self, connection: Connection, **options: Any) -> None:
        super().__init__(connection, **options)
        self.connection = connection

    async def pull_subscribe(  # type: ignore[override]
        self,
        subject: str,
        durable: str | None = None,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        **options: Any,
    ) -> Pull:
        """Bind to a durable consumer of a stream. The consumer need not exist yet."""
        if not durable or not stream:
            raise ValueError("name the stream and the durable consumer, as the topology declares them")
        inbox = self.connection.new_inbox()
        sub = await self.connection.subscribe(f"{inbox}.*")
        return Pull(self, sub, stream, durable)


def _status(message: Msg) -> str | None:
    """The status of an answer that is no message of the stream.

    A message of the stream may have a header `Status` of its own, which its sender chose. It asks for an
    acknowledgement, which the server's answers do not.
    """
    return None if message.reply.startswith(_ACKNOWLEDGE) else JetStreamContext.is_status_msg(message)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
