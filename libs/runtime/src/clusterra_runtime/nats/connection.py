"""The connection to NATS: nats-py's client, changed to survive every failure of the server and of its own credentials.

nats-py closes itself permanently on most errors that a server can send, and a pull loop over a closed client spins
without ever yielding. This connection reconnects for as long as the process lives.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.client import Client as NatsClient
from nats.aio.transport import TcpTransport

from clusterra_runtime.metrics import NATS_CONNECTED, RECONNECTS
from clusterra_runtime.nats.credentials import connect_options
from clusterra_runtime.settings import ServiceSettings

log = structlog.get_logger(__name__)

RECONNECT_WAIT_SECONDS = 0.5
PING_SECONDS = 20.0
"""Two unanswered pings end a connection, so a silent server is noticed within a minute, not within six."""
_REPEAT_SECONDS = 30.0
_CLOSED_PAUSE_SECONDS = 0.25
_HARMLESS = ("permissions violation", "maximum subscriptions exceeded", "invalid subject", "invalid publish subject")


class Connection(NatsClient):
    """A nats-py client that is never CLOSED before `close`, and whose callbacks never raise.

    `login_bytes` is the largest message that the login allows, if that is less than the server takes. The server tells
    only its own limit, and ends the connection of a client that exceeds that of its login.
    """

    def __init__(self, *, login_bytes: int | None = None) -> None:
        super().__init__()
        self._login_bytes = login_bytes
        self._up = asyncio.Event()
        self._logged_down = False
        self._on_loss: set[Callable[[], None]] = set()
        self._on_reconnect: list[Callable[[], None]] = []
        self._reported: dict[str, float] = {}

    async def wait_connected(self, timeout_seconds: float | None) -> bool:
        """Wait for a connection, at most `timeout_seconds` (None: without limit). Returns whether there is one."""
        if not self.is_connected:
            # The connection was lost a moment ago and the reconnect has not begun yet.
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

        nats-py itself would go on waiting for answers that cannot come any more. Raises TimeoutError after
        `timeout_seconds`.
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
        """Call back after every reconnect, on the reconnecting task, so callbacks must be quick.

        Returns a function that removes the callback.
        """
        self._on_reconnect.append(callback)
        return lambda: self._on_reconnect.remove(callback)

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish as nats-py does. A closed connection lets other tasks run before it raises."""
        if self.is_closed:
            await asyncio.sleep(_CLOSED_PAUSE_SECONDS)
        if self._login_bytes is not None and len(payload) + _header_bytes(headers) > self._login_bytes:
            raise nats.errors.MaxPayloadError
        await super().publish(subject, payload, reply, headers)

    async def _process_err(self, err_msg: str) -> None:
        # nats-py closes itself here for most errors. A server that cannot continue closes the connection itself; the
        # read loop notices that and reconnects. A connection that the server leaves open is still usable.
        error = nats.errors.Error(f"nats: {err_msg}")
        self._err = error
        await self.report(error)
        if not any(harmless in err_msg.lower() for harmless in _HARMLESS):
            await self._process_op_err(error)

    async def _process_headers(self, headers: Any) -> dict[str, str] | None:
        # nats-py raises for some bytes that are no headers, and no longer reads anything after an exception. Who sends
        # a message chooses these bytes. Without headers it is delivered, so that a consumer can give it up.
        try:
            return await super()._process_headers(headers)
        except Exception:
            await self.report(nats.errors.Error("nats: the headers of a message cannot be read"))
            return None

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        # As above: the reply subject of a message may be any bytes.
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except Exception as error:
            await self.report(nats.errors.Error(f"nats: a message cannot be read: {type(error).__name__}"))

    async def _attempt_reconnect(self) -> None:
        # nats-py calls back only after it has closed the old socket, which can take seconds.
        await self.went_down()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        # nats-py drops the socket of a rejected attempt without closing it.
        if self._transport:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException:
            # asyncio never says that a socket is closed whose TLS handshake failed or was cancelled, and nats-py would
            # wait for that without limit. After a handshake it keeps the socket itself until TLS has ended.
            transport = self._transport
            if isinstance(transport, TcpTransport) and transport._io_writer is transport._bare_io_writer:
                transport.close()  # type: ignore[no-untyped-call]
                self._transport = None
            raise

    async def _process_pong(self) -> None:
        # A cancelled flush leaves its cancelled future behind, and setting its result would end nats-py's read loop.
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def report(self, error: Exception) -> None:
        """Log an error of the connection, at most once in 30 s: it repeats for as long as the server is away."""
        text = str(error) or type(error).__name__
        now = time.monotonic()
        if now - self._reported.get(text, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
            self._reported = {known: at for known, at in self._reported.items() if now - at < _REPEAT_SECONDS}
            self._reported[text] = now
            log.warning("nats_error", reason=text, kind=type(error).__name__)

    async def went_down(self) -> None:
        """Handle a lost or closed connection; nats-py calls it."""
        self._up.clear()
        NATS_CONNECTED.set(0)
        for cut in tuple(self._on_loss):
            cut()
        if not self._logged_down:
            self._logged_down = True
            log.log(logging.INFO if self.is_closed else logging.WARNING, "nats_disconnected")

    async def came_up(self) -> None:
        """Handle a renewed connection; nats-py calls it."""
        self._set_up()
        RECONNECTS.inc()
        log.info("nats_reconnected", server=self._server_name())
        for callback in tuple(self._on_reconnect):
            try:
                callback()
            except Exception:
                log.exception("nats_reconnect_callback_failed")

    async def open(self, settings: ServiceSettings, service: str, inbox_prefix: str) -> None:
        """Connect, retrying without limit."""
        options: dict[str, Any] = {
            "servers": settings.nats_url.split(","),
            "name": f"{service}/{settings.instance}",
            "inbox_prefix": inbox_prefix,
            "error_cb": self.report,
            "closed_cb": self.went_down,
            "reconnected_cb": self.came_up,
            "max_reconnect_attempts": -1,
            # The clients of a restarted server must not all reconnect at the same moment.
            "reconnect_time_wait": RECONNECT_WAIT_SECONDS * random.uniform(1, 1.5),  # noqa: S311
            "ping_interval": PING_SECONDS,
            **connect_options(settings),
        }
        try:
            await self.connect(**options)
        except BaseException:
            await self.close()
            raise
        self._set_up()
        log.info("nats_connected", server=self._server_name())

    def _set_up(self) -> None:
        self._reported.clear()
        NATS_CONNECTED.set(1)
        self._logged_down = False
        self._up.set()

    def _server_name(self) -> str:
        return str(self._server_info.get("server_name", ""))


def _header_bytes(headers: dict[str, str] | None) -> int:
    """How many bytes headers take, which count as part of a message."""
    lines = (len(name.encode()) + len(value.encode()) + 4 for name, value in (headers or {}).items())
    return sum(lines, start=len("NATS/1.0\r\n\r\n")) if headers else 0
