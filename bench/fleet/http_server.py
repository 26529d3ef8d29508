"""A minimal HTTP/1.1 server. aiohttp's would take more CPU than the services that are measured beside it."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clusterra_lab.machine.ports import free_port

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PART_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and a body; a body in parts is written part by part."""

    body: bytes | Iterable[bytes]
    status: str = "200 OK"
    size: int = 0
    """The number of bytes of a body in parts."""


NOT_MODIFIED = Reply(b"", "304 Not Modified")
type Handler = Callable[[str, str, bytes], Reply]
"""Method, target and body to the reply."""


class _Connection(asyncio.Protocol):
    """One client's connection. Requests are answered one after another, as aiohttp's client sends them."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._received = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._long: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._writable.set()
        if self._long is not None:
            self._long.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._received[:end]
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        if len(self._received) < end + 4 + length:
            return
        body = self._received[end + 4 : end + 4 + length]
        self._received = self._received[end + 4 + length :]
        method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
        reply = self._handle(method, target, body)
        if isinstance(reply.body, bytes):
            self._transport.write(_head(reply.status, len(reply.body)) + reply.body)
        else:
            self._long = asyncio.create_task(self._write_parts(_head(reply.status, reply.size), reply.body))

    async def _write_parts(self, head: bytes, parts: Iterable[bytes]) -> None:
        """Write a long body, and let others have the loop in between."""
        pending, size = [head], 0
        for part in parts:
            pending.append(part)
            size += len(part)
            if size >= _PART_BYTES:
                await self._writable.wait()
                self._transport.write(b"".join(pending))
                pending, size = [], 0
                await asyncio.sleep(0)
        self._transport.write(b"".join(pending))


def _head(status: str, length: int) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()


@asynccontextmanager
async def http_server(handle: Handler) -> AsyncIterator[str]:
    """Serve on a free port of this machine until the block ends; gives the base URL."""
    port = free_port()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(handle), "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
