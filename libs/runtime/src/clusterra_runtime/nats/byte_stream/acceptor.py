"""The side that accepts byte streams, the edge-agent's: bounds their number, and ends those that are idle or left."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_contracts.rpc.edge_streams import (
    CancelStream,
    OpenStream,
    ReadStream,
    SessionJob,
    StreamChunk,
    StreamOpened,
    StreamWritten,
    WriteStream,
)
from clusterra_contracts.rpc.reply import Done, ErrorKind, RpcError
from prometheus_client import Gauge

from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.byte_stream.held_stream import HeldStream
from clusterra_runtime.nats.byte_stream.numbering import MAX_CREDITS, ChunkLost
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

log = structlog.get_logger(__name__)

OPEN_STREAMS = Gauge("clusterra_byte_streams", "Byte streams that this edge-agent holds")
CONNECT_SECONDS = 5.0
_REMEMBERED = 4096
"""Sessions whose last use is remembered after their last stream; those used longest ago are forgotten."""

type Connect = Callable[[SessionJob], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Checks a session and connects to it. Raises RpcFailed, which refuses the stream with its reason, and OSError."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of an acceptor."""

    streams: int = 256
    streams_of_user: int = 64
    idle_seconds: float = 600.0
    """A stream ends when no byte has gone over it for this long. WebSockets of notebooks send pings."""
    silent_seconds: float = 60.0
    """A stream ends when its opener has not asked for anything for this long: it has died, or cannot be reached."""
    look_seconds: float = 2.0


DEFAULT_LIMITS = Limits()


class Acceptor:
    """Holds the accepted streams."""

    def __init__(self, connect: Connect, limits: Limits = DEFAULT_LIMITS) -> None:
        self._connect = connect
        self._limits = limits
        self._held: dict[str, HeldStream] = {}
        self._opening: list[SessionJob] = []
        self._began = asyncio.get_running_loop().time()
        self._left: dict[JobId, float] = {}
        """When bytes last went over a stream that has ended, by job."""

    async def serve(self, client: Client, ref: ClusterRef) -> Callable[[], Awaitable[None]]:
        """Answer the requests of a cluster's streams. Returns a function that stops that and ends all streams."""
        most = self._limits.streams * (MAX_CREDITS + 1)
        subscriptions = [
            await rpc.serve(client, subjects.edge(ref, "stream-open"), OpenStream, self._open),
            await rpc.serve(client, subjects.edge(ref, "stream-read"), ReadStream, self._read, concurrency=most),
            await rpc.serve(client, subjects.edge(ref, "stream-write"), WriteStream, self._write, concurrency=most),
            await rpc.serve(client, subjects.edge(ref, "stream-cancel"), CancelStream, self._cancel),
        ]

        async def end() -> None:
            for each in subscriptions:
                await each.unsubscribe()
            self.close()

        return end

    def close(self) -> None:
        """End all streams."""
        for stream_id in tuple(self._held):
            self._end(stream_id)

    async def run(self) -> None:
        """Ends streams that are idle or whose opener is gone, until cancelled."""
        loop, limits = asyncio.get_running_loop(), self._limits
        while True:
            await asyncio.sleep(limits.look_seconds)
            now = loop.time()
            for stream_id, held in tuple(self._held.items()):
                if now - held.heard_at > limits.silent_seconds or now - held.moved_at > limits.idle_seconds:
                    log.info("byte_stream_ended", job=held.session.job_id, silent_seconds=now - held.heard_at)
                    self._end(stream_id)

    def use_of(self, job_id: JobId) -> tuple[int, float]:
        """How many streams to a job's session are open, and for how long no byte has gone over any.

        What was before this acceptor is not known to it: the time counts from its beginning then.
        """
        moved = [held.moved_at for held in self._held.values() if held.session.job_id == job_id and not held.probe]
        last = max(*moved, self._left.get(job_id, self._began), self._began)
        return len(moved), asyncio.get_running_loop().time() - last

    async def _open(self, _subject: Subject, request: OpenStream) -> StreamOpened:
        session = request.session
        self._admit(session)
        self._opening.append(session)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await self._connect(session)
        except (OSError, TimeoutError) as error:
            raise _failed("unavailable", "the session's server does not answer", "try again in a moment") from error
        finally:
            self._opening.remove(session)
        stream_id = secrets.token_hex(16)
        self._held[stream_id] = HeldStream(request, reader, writer, asyncio.get_running_loop().time())
        OPEN_STREAMS.set(len(self._held))
        return StreamOpened(stream_id=stream_id)

    def _admit(self, session: SessionJob) -> None:
        known = [*(held.session for held in self._held.values()), *self._opening]
        if len(known) >= self._limits.streams:
            raise _failed("unavailable", "too many streams are open at this edge", "try again in a moment")
        if sum(each.uid == session.uid for each in known) >= self._limits.streams_of_user:
            raise _failed("conflict", f"you have {self._limits.streams_of_user} streams open", "close some pages")

    async def _read(self, _subject: Subject, request: ReadStream) -> StreamChunk:
        held = self._known(request.stream_id)
        try:
            chunk = await held.read(request.wait_seconds)
        except OSError as error:
            self._end(request.stream_id)
            raise _failed("unavailable", "the session's server broke the connection") from error
        self._end_if_over(request.stream_id, held)
        return chunk

    async def _write(self, _subject: Subject, request: WriteStream) -> StreamWritten:
        held = self._known(request.stream_id)
        try:
            written = await held.write(request)
        except ChunkLost as lost:
            self._end(request.stream_id)
            raise _failed("conflict", str(lost)) from lost
        except OSError as error:
            self._end(request.stream_id)
            raise _failed("unavailable", "the session's server broke the connection") from error
        self._end_if_over(request.stream_id, held)
        return written

    async def _cancel(self, _subject: Subject, request: CancelStream) -> Done:
        self._end(request.stream_id)
        return Done()

    def _known(self, stream_id: str) -> HeldStream:
        held = self._held.get(stream_id)
        if held is None:
            raise _failed("not_found", "this stream has ended")
        held.heard_at = asyncio.get_running_loop().time()
        return held

    def _end_if_over(self, stream_id: str, held: HeldStream) -> None:
        if held.over:
            self._end(stream_id)

    def _end(self, stream_id: str) -> None:
        held = self._held.pop(stream_id, None)
        OPEN_STREAMS.set(len(self._held))
        if held is not None:
            self._remember(held)
            held.close()

    def _remember(self, held: HeldStream) -> None:
        if held.probe:
            return
        job_id = held.session.job_id
        self._left[job_id] = max(held.moved_at, self._left.pop(job_id, held.moved_at))
        if len(self._left) > _REMEMBERED:
            del self._left[next(iter(self._left))]


def _failed(kind: ErrorKind, detail: str, hint: str = "") -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail, hint=hint, effect="none" if kind == "unavailable" else None))
