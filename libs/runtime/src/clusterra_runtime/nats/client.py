"""The connection to NATS: nats-py, made to outlive whatever happens to the server or to its own credentials.

nats-py closes itself for good on most errors that a server can send, and a pull loop above a closed client spins
without ever yielding. This client reconnects for as long as the process lives.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from clusterra_runtime.metrics import RECONNECTS
from clusterra_runtime.nats.credentials import connect_options
from clusterra_runtime.nats.pull import JetStream
from clusterra_runtime.settings import ServiceSettings

log = structlog.get_logger(__name__)

RECONNECT_WAIT_SECONDS = 0.5
PING_SECONDS = 20.0
"""Two unanswered pings end a connection: a silent peer is noticed within a minute, not within six."""
DRAIN_SECONDS = 10.0
"""For handlers to finish at a stop; it must fit into the service's grace time."""
FLUSH_SECONDS = 5.0
_REPEAT_SECONDS = 30.0
_CLOSED_PAUSE_SECONDS = 0.25
_HARMLESS = ("permissions violation", "maximum subscriptions exceeded", "invalid subject", "invalid publish subject")


class BusUnavailable(RuntimeError):
    """NATS or the stream did not answer in time. Nothing is known of what was sent; it may be sent again."""


class Client(NatsClient):
    """A nats-py client that is never CLOSED before `drain` or `close`, and whose callbacks never raise."""

    def __init__(self) -> None:
        super().__init__()
        self._up = asyncio.Event()
        self._told_down = False
        self._on_loss: set[Callable[[], None]] = set()
        self._on_reconnect: list[Callable[[], None]] = []
        self._reported: dict[str, float] = {}
        self._served: list[Subscription] = []
        self._work: set[asyncio.Task[None]] = set()

    async def wait_connected(self, timeout_seconds: float | None) -> bool:
        """Whether there is a connection, waiting for one at most this long, or as long as it takes."""
        if not self.is_connected:
            # Lost a moment ago: the reconnect has not begun yet.
            self._up.clear()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._up.wait()
        except TimeoutError:
            return False
        return True

    async def wait_lost(self) -> None:
        """Return as soon as there is no connection."""
        with suppress(nats.errors.ConnectionReconnectingError):
            async with self.while_connected(None):
                await asyncio.Event().wait()

    @asynccontextmanager
    async def while_connected(self, timeout_seconds: float | None) -> AsyncIterator[None]:
        """End the block with nats.errors.ConnectionReconnectingError as soon as the connection is lost.

        nats-py waits on, for answers that can no longer come. TimeoutError is raised when the time is over.
        """
        loop = asyncio.get_running_loop()
        lost = False

        def cut() -> None:
            nonlocal lost
            lost = True
            if not scope.expired():
                scope.reschedule(loop.time())

        self._on_loss.add(cut)
        try:
            async with asyncio.timeout(timeout_seconds) as scope:
                if not self.is_connected:
                    raise nats.errors.ConnectionReconnectingError
                yield
        except TimeoutError:
            if lost:
                raise nats.errors.ConnectionReconnectingError from None
            raise
        finally:
            self._on_loss.discard(cut)

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each renewed connection, from the reconnecting task: do no work there. Returns an undo."""
        self._on_reconnect.append(callback)
        return lambda: self._on_reconnect.remove(callback)

    async def listen(self, subject: str, receive: Callable[[Msg], Awaitable[None]], queue: str = "") -> Subscription:
        """Subscribe: the server knows of it on return, and `drain` ends it first and waits for its handlers."""
        subscription = await self.subscribe(subject, queue, cb=receive)
        self._served = [*(known for known in self._served if not known._closed), subscription]
        # Without a connection it is made known by the reconnect.
        with suppress(nats.errors.Error, TimeoutError):
            async with self.while_connected(FLUSH_SECONDS):
                await self.flush()
        return subscription

    def work(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a handler beside others; `drain` waits for it."""
        task = asyncio.create_task(job)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def jetstream(self, **options: Any) -> JetStream:
        """JetStream with pull subscriptions that deliver at once and survive what the server does."""
        return JetStream(self, **options)

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish as nats-py does; a closed client lets others run before it says so."""
        if self.is_closed:
            await asyncio.sleep(_CLOSED_PAUSE_SECONDS)
        await super().publish(subject, payload, reply, headers)

    async def drain(self) -> None:
        """Take no more messages, finish those that are being handled, send what is left, close. Never raises."""
        if self.is_closed:
            return
        try:
            async with self.while_connected(DRAIN_SECONDS):
                await self._take_no_more()
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._work:
                    await asyncio.wait(self._work)
            async with self.while_connected(FLUSH_SECONDS):
                await self.flush()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            log.warning("nats_not_drained", reason=repr(error))
        if not self.is_connected:
            # What could not be sent goes with the connection; nats-py would write it to a closed socket and fail.
            self._pending, self._pending_data_size = [], 0
        await self.close()

    async def _take_no_more(self) -> None:
        open_ones = [subscription for subscription in self._served if not subscription._closed]
        await asyncio.gather(*(subscription.drain() for subscription in open_ones))  # type: ignore[no-untyped-call]

    async def _process_err(self, err_msg: str) -> None:
        # nats-py closes itself here for most errors. A server that will not go on closes the connection, which the
        # read loop notices and answers by reconnecting; what it leaves open can be used further.
        error = nats.errors.Error(f"nats: {err_msg}")
        self._err = error
        await self.report(error)
        if not any(harmless in err_msg.lower() for harmless in _HARMLESS):
            await self._process_op_err(error)

    async def _attempt_reconnect(self) -> None:
        # nats-py calls back only after the old socket's farewell, which can take seconds.
        await self.went_down()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        # nats-py forgets the socket of a refused try without closing it.
        if self._transport:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._connect_to_server(s)

    async def _process_pong(self) -> None:
        # A flush that was given up leaves its cancelled future behind; nats-py's read loop dies of setting it.
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def report(self, error: Exception) -> None:
        """Log a connection's error, the same one only every 30 s: it is repeated for as long as the server is away."""
        text = str(error) or type(error).__name__
        now = time.monotonic()
        if now - self._reported.get(text, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
            self._reported = {known: at for known, at in self._reported.items() if now - at < _REPEAT_SECONDS}
            self._reported[text] = now
            log.warning("nats_error", reason=text, kind=type(error).__name__)

    async def went_down(self) -> None:
        """The connection is lost or closed."""
        self._up.clear()
        for cut in tuple(self._on_loss):
            cut()
        if not self._told_down:
            self._told_down = True
            log.log(logging.INFO if self.is_closed else logging.WARNING, "nats_disconnected")

    async def came_up(self) -> None:
        """nats-py tells that the connection is there again."""
        self._is_up()
        RECONNECTS.inc()
        log.info("nats_reconnected", server=self._server_name())
        for callback in tuple(self._on_reconnect):
            try:
                callback()
            except Exception:
                log.exception("nats_reconnect_callback_failed")

    async def open(self, settings: ServiceSettings, service: str, inbox_prefix: str) -> None:
        """Connect, trying for as long as it takes."""
        options: dict[str, Any] = {
            "servers": settings.nats_url.split(","),
            "name": f"{service}/{settings.instance}",
            "inbox_prefix": inbox_prefix,
            "error_cb": self.report,
            "closed_cb": self.went_down,
            "reconnected_cb": self.came_up,
            "max_reconnect_attempts": -1,
            # Not all clients of a server that comes back shall come back in the same moment.
            "reconnect_time_wait": RECONNECT_WAIT_SECONDS * random.uniform(1, 1.5),  # noqa: S311
            "ping_interval": PING_SECONDS,
            **connect_options(settings),
        }
        try:
            await self.connect(**options)
        except BaseException:
            await self.close()
            raise
        self._is_up()
        log.info("nats_connected", server=self._server_name())

    def _is_up(self) -> None:
        self._reported.clear()
        self._told_down = False
        self._up.set()

    def _server_name(self) -> str:
        return str(self._server_info.get("server_name", ""))
