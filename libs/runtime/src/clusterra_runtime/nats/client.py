"""The NATS client of a service: a connection whose handlers finish before it closes, with JetStream on top."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from clusterra_runtime.nats.connection import Connection
from clusterra_runtime.nats.pull import JetStream

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 10.0
"""The time for handlers to finish when a service stops; it must fit into the service's grace time."""
FLUSH_SECONDS = 5.0


class BusUnavailable(RuntimeError):
    """NATS or the stream did not answer in time. Whether the message was stored is unknown; it may be sent again."""


class Client(Connection):
    """A connection that knows its subscriptions and running handlers, so that `drain` can wait for them."""

    def __init__(self, *, login_bytes: int | None = None) -> None:
        super().__init__(login_bytes=login_bytes)
        self._subscriptions: list[Subscription] = []
        self._handlers: set[asyncio.Task[None]] = set()
        self._batches = 0

    async def listen(self, subject: str, receive: Callable[[Msg], Awaitable[None]], queue: str = "") -> Subscription:
        """Subscribe. The server knows the subscription on return; `drain` ends it and waits for its handlers."""
        subscription = await self.subscribe(subject, queue, cb=receive)
        self._subscriptions = [*(known for known in self._subscriptions if not known._closed), subscription]
        if self._batches:
            return subscription
        try:
            await self._registered()
        except asyncio.CancelledError:
            # The caller never gets the subscription, and so could not end it.
            with suppress(nats.errors.Error):
                await subscription.drain()  # type: ignore[no-untyped-call]
            raise
        return subscription

    @asynccontextmanager
    async def subscribing(self) -> AsyncIterator[None]:
        """Makes `listen` not wait for the server. It knows all subscriptions of the block at its end."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
        await self._registered()

    async def _registered(self) -> None:
        # Without a connection, the reconnect registers the subscriptions at the server.
        with suppress(nats.errors.Error, TimeoutError):
            async with self.while_connected(FLUSH_SECONDS):
                await self.flush()

    def work(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a handler concurrently; `drain` waits for it."""
        task = asyncio.create_task(job)
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        return task

    def jetstream(self, **options: Any) -> JetStream:
        """JetStream with pull subscriptions that deliver immediately and survive failures of the server."""
        return JetStream(self, **options)

    async def drain(self) -> None:
        """Stop receiving, wait for running handlers, send buffered messages and close. Never raises."""
        if self.is_closed:
            return
        try:
            async with self.while_connected(DRAIN_SECONDS):
                await self._drain_subscriptions()
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._handlers:
                    await asyncio.wait(self._handlers)
            async with self.while_connected(FLUSH_SECONDS):
                await self.flush()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            log.warning("nats_not_drained", reason=repr(error))
        if not self.is_connected:
            # Drop the messages that could not be sent: nats-py would fail writing them to a closed socket.
            self._pending, self._pending_data_size = [], 0
        await self.close()

    async def _drain_subscriptions(self) -> None:
        active = [subscription for subscription in self._subscriptions if not subscription._closed]
        await asyncio.gather(*(subscription.drain() for subscription in active))  # type: ignore[no-untyped-call]
