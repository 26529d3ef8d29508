"""One accepted stream at the edge: a TCP connection whose bytes are handed out chunk by chunk."""

import asyncio
import contextlib

from clusterra_contracts.rpc.edge_streams import (
    CHUNK_BYTES,
    MAX_WAIT_SECONDS,
    OpenStream,
    StreamChunk,
    StreamWritten,
    WriteStream,
)

from clusterra_runtime.nats.byte_stream.numbering import Arrivals, Departures


class HeldStream:
    """Reads from its connection only while a chunk is asked for, so that it buffers no more than the connection does.

    Methods raise OSError when the connection breaks, and ChunkLost.
    """

    def __init__(
        self, opened: OpenStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, now: float
    ) -> None:
        self.session, self.probe = opened.session, opened.probe
        self.heard_at = now
        """When the other end asked for anything."""
        self.moved_at = now
        """When bytes went in either direction."""
        self._reader = reader
        self._writer = writer
        self._arrivals, self._departures = Arrivals(), Departures()
        self._turn = asyncio.Lock()

    @property
    def over(self) -> bool:
        """Whether both directions have ended."""
        return self._arrivals.ended and self._departures.ended

    async def read(self, wait_seconds: float) -> StreamChunk:
        """The next chunk. Requests are answered in the order in which they came."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(loop.time() + wait_seconds), self._turn:
                if self._departures.ended:
                    return StreamChunk(number=self._departures.last, end=True)
                data = await self._reader.read(CHUNK_BYTES)
                # Nothing is awaited from here on: a chunk with a number is always answered.
                self.moved_at = loop.time()
                number = self._departures.next(end=not data)
                # Not validated: pydantic would take the bytes for base64.
                return StreamChunk.model_construct(number=number, data=data, end=not data)
        except TimeoutError:
            return StreamChunk(number=self._departures.last)

    async def write(self, chunk: WriteStream) -> StreamWritten:
        """Take a chunk at once, and wait until the connection has room for the next one."""
        if chunk.number:
            self._arrivals.take(chunk.number, end=chunk.end)
            self.moved_at = asyncio.get_running_loop().time()
            self._writer.write(chunk.data)
            if chunk.end:
                self._writer.write_eof()
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            return StreamWritten(room=False)
        return StreamWritten()

    def close(self) -> None:
        """End the connection. What was handed to it before is still sent if both directions have ended."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.over:
                self._writer.close()
            else:
                self._writer.transport.abort()
