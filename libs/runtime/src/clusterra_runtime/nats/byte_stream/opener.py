"""The side that opens a byte stream, the gateway's: reads, writes and keep-alives as requests to the edge."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Self

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_streams import (
    CHUNK_BYTES,
    MAX_WAIT_SECONDS,
    CancelStream,
    OpenStream,
    ReadStream,
    SessionJob,
    StreamChunk,
    StreamOpened,
    StreamWritten,
    WriteStream,
)
from clusterra_contracts.rpc.reply import Done

from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.byte_stream.numbering import MAX_CREDITS, Arrivals, ChunkLost, Credits, Departures
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 5.0
"""How long an answer may take on top of the wait that the request asks for."""
ALIVE_SECONDS = 20.0
"""The interval of keep-alives on a stream that is not read."""


class StreamBroken(ConnectionError):
    """A stream broke off: bytes may be missing on either side."""


class ByteStream:
    """An open stream. One task may read while another one writes. Use it as a context: it is cancelled at the end."""

    def __init__(self, client: Client, ref: ClusterRef, stream_id: str) -> None:
        self._client = client
        self._ref = ref
        self._id = stream_id
        self._arrivals, self._credits, self._departures = Arrivals(), Credits(), Departures()
        self._asked: deque[asyncio.Task[StreamChunk]] = deque()
        self._window = asyncio.Semaphore(MAX_CREDITS)
        self._sending: set[asyncio.Task[None]] = set()
        self._broken: StreamBroken | None = None
        self._cancelled = False
        self._end = asyncio.get_running_loop().create_future()
        """Done once the stream is broken or cancelled."""
        self._alive = asyncio.create_task(self._stay_alive())

    @classmethod
    async def open(cls, client: Client, ref: ClusterRef, session: SessionJob, *, probe: bool = False) -> Self:
        """Open a stream to a session of a cluster; a probe does not count as its use.

        Raises RpcFailed: `not_found`, `conflict`, `unavailable`.
        """
        subject = subjects.edge(ref, "stream-open")
        request = OpenStream(session=session, probe=probe)
        opened = await rpc.call(client, subject, request, StreamOpened, timeout_seconds=2 * ANSWER_SECONDS)
        return cls(client, ref, opened.stream_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    async def read(self) -> bytes:
        """The next bytes of the session; none at their end. Raises StreamBroken."""
        while not self._arrivals.ended:
            self._check()
            while len(self._asked) < self._credits.wanted:
                asked = asyncio.create_task(self._ask())
                asked.add_done_callback(_noted)
                self._asked.append(asked)
            # A reader that is cancelled here loses nothing: the answer stays first in the queue.
            await asyncio.wait((self._asked[0], self._end), return_when=asyncio.FIRST_COMPLETED)
            self._check()
            try:
                chunk = self._asked.popleft().result()
                self._arrivals.take_answer(chunk.number, empty=not chunk.data, end=chunk.end)
            except (RpcFailed, ChunkLost) as error:
                raise self._break(error) from error
            self._credits.received(len(chunk.data), CHUNK_BYTES)
            if chunk.data:
                return chunk.data
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes. Waits while the session does not take what was sent before. Raises StreamBroken."""
        for begin in range(0, len(data), CHUNK_BYTES):
            await self._send(data[begin : begin + CHUNK_BYTES], end=False)

    async def write_eof(self) -> None:
        """Tell the session that nothing more follows, and wait until it has taken all. Raises StreamBroken."""
        if not self._departures.ended:
            await self._send(b"", end=True)
        if self._sending:
            await asyncio.wait(self._sending)
        self._check()

    async def cancel(self) -> None:
        """End the stream in both directions. Never raises."""
        over = self._arrivals.ended and self._departures.ended and not self._sending
        for task in (self._alive, *self._asked, *self._sending):
            task.cancel()
        if not over and not self._cancelled:
            self._cancelled = True
            self._break(StreamBroken("the stream was cancelled"))
            with suppress(RpcFailed):
                await self._call("stream-cancel", CancelStream(stream_id=self._id), Done)

    async def _send(self, data: bytes, *, end: bool) -> None:
        await self._window.acquire()
        try:
            self._check()
            number = self._departures.next(end=end)
        except (StreamBroken, ChunkLost) as error:
            self._window.release()
            raise self._break(error) from error
        # Not awaited here: the tasks begin in this order, and so do their requests.
        sending = asyncio.create_task(self._sent(self._chunk(number, data, end=end)))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    def _chunk(self, number: int, data: bytes, *, end: bool) -> WriteStream:
        # Not validated: pydantic would take the bytes for base64.
        return WriteStream.model_construct(stream_id=self._id, number=number, data=data, end=end)

    async def _sent(self, chunk: WriteStream) -> None:
        """Holds a place in the window until the session has taken the chunk."""
        try:
            while not (await self._call("stream-write", chunk, StreamWritten, MAX_WAIT_SECONDS)).room:
                chunk = WriteStream(stream_id=self._id, number=0)
        except RpcFailed as failed:
            self._break(failed)
        finally:
            self._window.release()

    async def _ask(self) -> StreamChunk:
        return await self._call("stream-read", ReadStream(stream_id=self._id), StreamChunk, MAX_WAIT_SECONDS)

    async def _stay_alive(self) -> None:
        """Lets the edge know that this end still has the stream while its reader asks for nothing."""
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            try:
                await self._call("stream-write", WriteStream(stream_id=self._id, number=0), StreamWritten)
            except RpcFailed as failed:
                if failed.error.kind == "not_found" and self._arrivals.ended and self._departures.ended:
                    return
                self._break(failed)
                return

    async def _call[T: (StreamChunk, StreamWritten, Done)](
        self, operation: str, request: ReadStream | WriteStream | CancelStream, result: type[T], wait: float = 0.0
    ) -> T:
        subject = subjects.edge(self._ref, operation)
        return await rpc.call(self._client, subject, request, result, timeout_seconds=wait + ANSWER_SECONDS)

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _break(self, cause: Exception) -> StreamBroken:
        if self._broken is None:
            detail = cause.error.detail if isinstance(cause, RpcFailed) else str(cause)
            self._broken = StreamBroken(detail)
            self._end.set_result(None)
            if not self._cancelled:
                log.info("byte_stream_broken", tenant=self._ref.tenant, cluster=self._ref.cluster, reason=detail)
        return self._broken


def _noted(asked: asyncio.Task[StreamChunk]) -> None:
    """Marks a failure as seen: of several requests that fail together, only the first is awaited."""
    if not asked.cancelled():
        asked.exception()
