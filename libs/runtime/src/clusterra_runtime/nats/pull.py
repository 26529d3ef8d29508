"""Pulling from a JetStream consumer: messages at once when there are some, one waiting request when there are none.

nats-py's own `fetch` waits out its time on a connection that was renewed meanwhile, so its time must be short and its
requests many; it also answers a missing consumer with requests without a pause.
"""

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

from clusterra_runtime.metrics import UNSERVED_PULLS

if TYPE_CHECKING:
    from clusterra_runtime.nats.client import Client

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 5.0
"""How often the server says that a waiting request still stands; after two of these without a word it is made anew."""
ANSWER_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
"""Between requests that no consumer answers."""

_NOBODY = "503"
_HEARTBEAT = "100"
_EMPTY = frozenset({"404", "408"})


class Pull(JetStreamContext.PullSubscription):
    """A subscription to an existing pull consumer.

    At most one request stands at any time, and one that waits asks for a single message: nothing is held here while
    handlers are busy, so a process that ends leaves nothing behind that others must wait `ack_wait` for.
    """

    def __init__(self, js: JetStreamContext, client: "Client", sub: Subscription, stream: str, consumer: str) -> None:
        super().__init__(js, sub, stream, consumer, sub.subject.removesuffix(".*").encode())
        self.consumer = f"{stream}/{consumer}"
        self.served = True
        """Whether the last request was answered; False says that there is no such consumer at the moment."""
        self._client = client
        self._request = 0
        self._more = True
        self._pause = FIRST_PAUSE_SECONDS

    async def fetch(self, batch: int = 1, timeout: float | None = 30.0, heartbeat: float | None = None) -> list[Msg]:
        """Up to `batch` messages as soon as there is one; an empty list when there is none for `timeout` seconds.

        An empty list may come early: after a renewed connection, or when the server ended the request. Raises
        nats.errors.ConnectionClosedError once the client is closed.
        """
        if self._client.is_closed:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            raise nats.errors.ConnectionClosedError
        if messages := self._arrived(batch):
            return messages
        seconds = timeout or 30.0
        if not await self._client.wait_connected(seconds):
            return []
        if self._more:
            messages = await self._ask({"batch": batch, "no_wait": True}, batch, ANSWER_SECONDS)
        if not messages:
            every = min(heartbeat or HEARTBEAT_SECONDS, seconds / 3)
            waiting = {"batch": 1, "expires": _nanoseconds(seconds), "idle_heartbeat": _nanoseconds(every)}
            messages = await self._ask(waiting, 1, 2 * every)
        self._more = bool(messages)
        return messages

    async def unsubscribe(self) -> None:
        """Stop; messages that came but were not fetched are given back at once."""
        # Without a connection they come back after `ack_wait`.
        with suppress(nats.errors.Error):
            for message in self._arrived(self._sub.pending_msgs):
                await message.nak()
            await super().unsubscribe()

    def _arrived(self, most: int) -> list[Msg]:
        messages: list[Msg] = []
        while len(messages) < most and self._sub.pending_msgs:
            message = self._took(self._sub._pending_queue.get_nowait())
            if not _status(message):
                messages.append(message)
        return messages

    async def _ask(self, request: dict[str, Any], most: int, silence_seconds: float) -> list[Msg]:
        self._request += 1
        inbox = f"{self._deliver}.{self._request}"
        await self._client.publish(self._nms, json.dumps(request).encode(), inbox)
        messages: list[Msg] = []
        while len(messages) < most and (message := await self._next(silence_seconds)) is not None:
            status = _status(message)
            if not status:
                messages.append(message)
            elif message.subject == inbox and status != _HEARTBEAT:
                await self._ended(status, message)
                break
        if messages:
            self._answered()
        return messages

    async def _next(self, seconds: float) -> Msg | None:
        waiting = self._sub._pending_queue
        if waiting.empty():
            try:
                async with self._client.while_connected(seconds):
                    return self._took(await waiting.get())
            except (TimeoutError, nats.errors.ConnectionReconnectingError):
                # The server that the request stood at is gone, and the request with it.
                return None
        return self._took(waiting.get_nowait())

    def _took(self, message: Msg) -> Msg:
        self._sub._pending_queue.task_done()
        self._sub._pending_size -= len(message.data)
        return message

    def _answered(self) -> None:
        if not self.served:
            log.info("nats_pull_served_again", consumer=self.consumer)
        self.served = True
        self._pause = FIRST_PAUSE_SECONDS

    async def _ended(self, status: str, message: Msg) -> None:
        if status in _EMPTY:
            self._answered()
            return
        if status == _NOBODY:
            UNSERVED_PULLS.labels(self.consumer).inc()
            if self.served:
                log.warning("nats_pull_unserved", consumer=self.consumer, hint="does `topology check` find it?")
            self.served = False
        else:
            reason = (message.headers or {}).get("Description")
            log.info("nats_pull_ended", consumer=self.consumer, status=status, reason=reason)
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


class JetStream(JetStreamContext):
    """JetStream whose pull subscriptions bind to what the topology declared: a service never creates a consumer."""

    def __init__(self, client: "Client", **options: Any) -> None:
        super().__init__(client, **options)
        self._client = client

    async def pull_subscribe(  # type: ignore[override]
        self,
        subject: str,
        durable: str | None = None,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        **options: Any,
    ) -> Pull:
        """Bind to the durable consumer of a stream, whether it exists now or will later."""
        if not durable or not stream:
            raise ValueError("name the stream and the durable consumer that the topology declares")
        return await self.pull(stream, durable)

    async def pull(self, stream: str, consumer: str) -> Pull:
        """Bind to a pull consumer of a stream, durable or not."""
        inbox = self._client.new_inbox()
        sub = await self._client.subscribe(f"{inbox}.*")
        return Pull(self, self._client, sub, stream, consumer)


def _status(message: Msg) -> str | None:
    return JetStreamContext.is_status_msg(message)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
