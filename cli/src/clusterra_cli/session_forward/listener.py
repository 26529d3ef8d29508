"""A reverse proxy on this machine (port forwarding): sends the requests that are admitted to the session, HTTP and
WebSockets, and their answers back."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from html import escape
from urllib.parse import urlsplit

import h11

from clusterra_cli.session_forward.admission import Admission, Forward, Redirect, Rejection
from clusterra_cli.session_forward.headers import Upstream, is_web_socket, to_browser, to_session
from clusterra_cli.session_forward.loopback_sockets import loopback_sockets
from clusterra_cli.session_forward.places import Places

READ_BYTES = 64 * 1024
IDLE_SECONDS = 60.0
"""How long a connection may be without a request."""
UNADMITTED_SECONDS = 5.0
"""How long one may be that has not shown the cookie."""
CONNECT_SECONDS = 15.0
ENDINGS = (OSError, EOFError, TimeoutError, h11.ProtocolError)

type UpstreamSource = Callable[[], Upstream]
"""Returns where the session is, with a valid cookie. It may take a while. Raises what the SDK raises."""


class UpstreamFailed(Exception):
    """The session's side could not be reached, or did not answer as HTTP says."""


@asynccontextmanager
async def listening(
    port: int, enter: UpstreamSource, opened: Callable[[Admission], object]
) -> AsyncIterator[Admission]:
    """Listen on the loopback addresses until the block ends; port 0 is any free one.

    `opened` is called for each browser that has opened the address. Raises OSError where the port is taken, and what
    `enter` raises.
    """
    first = await asyncio.to_thread(enter)
    sockets = loopback_sockets(port)
    admission = Admission(first.page, sockets[0].getsockname()[1])
    places = Places()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        places.add(writer)
        try:
            await _Browser(reader, writer, admission, enter, opened, places).serve()
        except ENDINGS:
            pass
        finally:
            places.remove(writer)
            writer.close()

    async with AsyncExitStack() as servers:
        for each in sockets:
            servers.callback(each.close)
        servers.callback(places.close)
        for each in sockets:
            server = await asyncio.start_server(serve, sock=each, limit=READ_BYTES)
            servers.callback(server.close)
        yield admission


class _Browser:
    """One connection of a browser, and the one to the session that carries its requests."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        admission: Admission,
        enter: UpstreamSource,
        opened: Callable[[Admission], object],
        places: Places,
    ) -> None:
        self._reader, self._writer, self._places = reader, writer, places
        self._admission, self._enter, self._opened = admission, enter, opened
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_BYTES)

    async def serve(self) -> None:
        """Answer requests, one after the other, until either side ends the connection."""
        while True:
            admitted = self._places.is_admitted(self._writer)
            async with asyncio.timeout(IDLE_SECONDS if admitted else UNADMITTED_SECONDS):
                request = await self._next()
            if not isinstance(request, h11.Request):
                return
            decision = self._admission.decide(request.method, request.target, request.headers)
            if isinstance(decision, Forward) and not self._places.admit(self._writer):
                decision = Rejection(503, "Too many connections are open.")
            if not isinstance(decision, Forward):
                await self._answer(decision)
                return
            try:
                await self._forward(request)
            except UpstreamFailed as failed:
                if self._http.our_state is h11.SEND_RESPONSE:
                    await self._answer(Rejection(502, f"The session does not answer: {failed}"))
                return
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What comes next. Raises h11.RemoteProtocolError."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _answer(self, decision: Rejection | Redirect) -> None:
        """Answer by ourselves, and end the connection."""
        headers = [("connection", "close"), ("cache-control", "no-store"), ("referrer-policy", "no-referrer")]
        headers += [("content-security-policy", "default-src 'none'; frame-ancestors 'none'")]
        if isinstance(decision, Redirect):
            headers += [("location", decision.path)]
            headers += [("set-cookie", decision.cookie)] if decision.cookie else []
            status, body = 303, b""
            if decision.cookie:
                self._opened(self._admission)
        else:
            text = f"<!doctype html><title>{decision.status}</title><p>{escape(decision.text)}</p>"
            status, body = decision.status, text.encode()
            headers += [("content-type", "text/html; charset=utf-8")]
        await self._send(h11.Response(status_code=status, headers=[*headers, ("content-length", str(len(body)))]))
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _forward(self, request: h11.Request) -> None:
        """Carry a request with its body to the session, and its answer back. Raises UpstreamFailed."""
        upgrade = is_web_socket(request.method, request.headers)
        try:
            upstream = await asyncio.to_thread(self._enter)
        except Exception as error:
            raise UpstreamFailed(type(error).__name__) from error
        async with _session(upstream) as session:
            headers = to_session(request.headers, self._admission.origin, upstream, upgrade=upgrade)
            if not upgrade:
                headers.append((b"connection", b"close"))
            await session.send(h11.Request(method=request.method, target=request.target, headers=headers))
            while isinstance(event := await self._next(), h11.Data):
                await session.send(h11.Data(data=event.data))
            await session.send(h11.EndOfMessage())
            switched = await self._carry_answer(session, upstream)
            if switched is not None:
                await self._send(switched)
                await self._carry_bytes(session)

    async def _carry_answer(self, session: "_Session", upstream: Upstream) -> h11.InformationalResponse | None:
        """Carry an answer back. Returns the one that switches to a WebSocket, if it is one."""
        local = self._admission.origin
        gone = asyncio.create_task(self._reader.read(READ_BYTES)) if not self._reader.at_eof() else None
        try:
            while True:
                event = await session.next(gone)
                if isinstance(event, h11.InformationalResponse):
                    if event.status_code == 101:
                        headers = to_browser(event.headers, local, upstream, upgrade=True)
                        return h11.InformationalResponse(status_code=101, headers=headers, reason=event.reason)
                elif isinstance(event, h11.Response):
                    headers = to_browser(event.headers, local, upstream)
                    await self._send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
                elif isinstance(event, h11.Data):
                    await self._send(h11.Data(data=event.data))
                elif isinstance(event, h11.EndOfMessage):
                    await self._send(h11.EndOfMessage())
                    return None
                else:
                    raise UpstreamFailed("its answer broke off")
        finally:
            await self._kept(gone)

    async def _kept(self, ahead: asyncio.Task[bytes] | None) -> None:
        """Keep what the browser has sent already behind its request."""
        if ahead is None:
            return
        if not ahead.done():
            ahead.cancel()
        with suppress(asyncio.CancelledError, OSError):
            self._http.receive_data(await ahead)

    async def _carry_bytes(self, session: "_Session") -> None:
        """Carry what follows a switched protocol, both ways, until either side ends."""
        for_session, for_browser = self._http.trailing_data[0], session.http.trailing_data[0]
        session.writer.write(for_session)
        self._writer.write(for_browser)
        tasks = [
            asyncio.create_task(_copy(self._reader, session.writer)),
            asyncio.create_task(_copy(session.reader, self._writer)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Session:
    """A connection to the session's origin."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=READ_BYTES)

    async def send(self, event: h11.Event) -> None:
        """Raises UpstreamFailed."""
        try:
            data = self.http.send(event)
            if data:
                self.writer.write(data)
                await self.writer.drain()
        except (OSError, h11.LocalProtocolError) as error:
            raise UpstreamFailed(type(error).__name__) from error

    async def next(self, gone: asyncio.Task[bytes] | None) -> object:
        """What comes next. `gone` ends with nothing when the browser has gone. Raises UpstreamFailed."""
        try:
            while (event := self.http.next_event()) is h11.NEED_DATA:
                reading = asyncio.create_task(self.reader.read(READ_BYTES))
                waited = {reading} | ({gone} if gone is not None and not gone.done() else set())
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done() and gone is not None and gone.exception() is None and not gone.result():
                    reading.cancel()
                    raise UpstreamFailed("the browser has gone")
                await asyncio.wait({reading})
                self.http.receive_data(reading.result())
        except (OSError, h11.RemoteProtocolError) as error:
            raise UpstreamFailed(type(error).__name__) from error
        return event


@asynccontextmanager
async def _session(upstream: Upstream) -> AsyncIterator[_Session]:
    """A new connection to the session's origin. Raises UpstreamFailed."""
    address = urlsplit(upstream.origin)
    secure = address.scheme == "https"
    connecting = partial(asyncio.open_connection, address.hostname, address.port or (443 if secure else 80))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await connecting(ssl=ssl.create_default_context() if secure else None, limit=READ_BYTES)
    except (OSError, TimeoutError) as error:
        raise UpstreamFailed(type(error).__name__) from error
    try:
        yield _Session(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()
