"""Connects aiohttp's client to sessions: each of its connections is a byte stream through the edge.

aiohttp talks to one end of a socket pair, and two tasks carry the bytes between the other end and the stream. So HTTP
and WebSockets are read and written by aiohttp, with its own back-pressure.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import override

import aiohttp
import structlog
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace
from clusterra_runtime.nats.byte_stream.opener import ByteStream, StreamBroken
from clusterra_runtime.nats.rpc import RpcFailed

log = structlog.get_logger()

READ_BYTES = 64 * 1024
MAX_CONNECTIONS = 1000
"""To all sessions, from this replica."""
MAX_CONNECTIONS_TO_SESSION = 40
IDLE_SECONDS = 20.0
"""How long an unused connection is kept for the next request."""

type OpenStream = Callable[[str], Awaitable[ByteStream]]
"""Opens a stream to the session that a host name stands for. Raises RpcFailed."""


class StreamConnector(aiohttp.BaseConnector):
    """A connector whose hosts are sessions."""

    def __init__(self, open_stream: OpenStream) -> None:
        super().__init__(
            limit=MAX_CONNECTIONS, limit_per_host=MAX_CONNECTIONS_TO_SESSION, keepalive_timeout=IDLE_SECONDS
        )
        self._open_stream = open_stream
        self._carrying: set[asyncio.Task[None]] = set()

    @override
    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        try:
            stream = await self._open_stream(req.url.host or "")
        except RpcFailed as failed:
            raise aiohttp.ClientConnectionError(failed.error.detail) from failed
        ours, theirs = socket.socketpair()
        try:
            _, protocol = await self._loop.create_connection(self._factory, sock=theirs)
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            await stream.cancel()
            raise
        task = asyncio.create_task(_carry(stream, reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        return protocol

    async def end(self) -> None:
        """Close all connections, and end their streams."""
        await self.close()
        for task in self._carrying:
            task.cancel()
        if self._carrying:
            await asyncio.wait(self._carrying)


async def _carry(stream: ByteStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries bytes both ways until either side ends. aiohttp never half-closes: its end is that of the connection."""

    async def up() -> None:
        while data := await reader.read(READ_BYTES):
            await stream.write(data)

    async def down() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, StreamBroken | OSError):
                log.error("session_stream_failed", reason=type(result).__name__)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await stream.cancel()
