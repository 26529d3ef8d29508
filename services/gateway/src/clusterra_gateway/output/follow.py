"""Following a job's output: from a byte on, as it is written, until the job is over and all of it is read."""

import asyncio
import codecs
import io
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import orjson
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.feed import Feed, Subscription, TooSlow
from clusterra_gateway.bus.upstream import OutputStream, Upstream
from clusterra_gateway.http.sse import ServerSentEvent

WAIT_SECONDS = 2.0
"""How long one read waits at the end of the file for more."""
LAST_WAIT_SECONDS = 0.5
"""The same once the job is over: what it wrote last may take so long to show on a network file system."""
LOOK_SECONDS = 15.0
"""How often the job's state is asked for when no event tells of it: events are told, but they may be missed."""
NO_FILE_SECONDS = 0.5
RETRY_SECONDS = 1.0
MAX_EVENT_BYTES = 8192
"""Longer parts are split, for clients that read lines into a buffer of fixed size."""


class Text:
    """Bytes of a file in, text out, without ever splitting a character or a CR LF; `offset` is where to go on.

    What is no UTF-8 becomes U+FFFD, and CR LF and CR become LF, for SSE cannot carry them.
    """

    def __init__(self, offset: int) -> None:
        self._read = offset
        self._decoder = _decoder()

    @property
    def read(self) -> int:
        """The offset of the first byte that was not given to us yet."""
        return self._read

    @property
    def offset(self) -> int:
        """The offset of the first byte that is not in any text yet: an unfinished character's, or a CR's."""
        unfinished, pending_cr = self._decoder.getstate()
        return self._read - len(unfinished) - (pending_cr & 1)

    def add(self, data: bytes) -> list[tuple[str, int]]:
        """The texts that these bytes complete, each with the offset behind it."""
        parts = []
        for start in range(0, len(data), MAX_EVENT_BYTES):
            piece = data[start : start + MAX_EVENT_BYTES]
            text = self._decoder.decode(piece)
            self._read += len(piece)
            if text:
                parts.append((text, self.offset))
        return parts

    def finish(self) -> tuple[str, int] | None:
        """What is left when nothing more will come."""
        text = self._decoder.decode(b"", final=True)
        return (text, self._read) if text else None


def _decoder() -> io.IncrementalNewlineDecoder:
    return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)


@dataclass(frozen=True)
class Output:
    """Which output of which job, for whom."""

    ref: ClusterRef
    viewer: Viewer
    job: Job
    stream: OutputStream


class _Watch:
    """Knows whether a job is over: asks when an event tells of it, and otherwise now and then."""

    def __init__(self, upstream: Upstream, output: Output, changes: Subscription) -> None:
        self._upstream = upstream
        self._output = output
        self._changes = changes
        self._looked_at = time.monotonic()
        self.job = output.job

    @property
    def over(self) -> bool:
        return self.job.state in ENDED

    async def wait(self, seconds: float) -> None:
        """Wait at most so long for a change; look when there was one, or when the last look was long ago."""
        try:
            told = await self._changes.wait(seconds)
        except TooSlow:
            told = None
            await asyncio.sleep(seconds)
        if told is not None or time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            try:
                self.job = await self._upstream.job(self._output.ref, self._output.viewer, self.job.job_id)
            except RpcFailed as failed:
                if failed.error.kind != "unavailable":
                    raise


async def follow(upstream: Upstream, feed: Feed, output: Output, *, offset: int) -> AsyncGenerator[ServerSentEvent]:
    """The output from a byte offset on; each event's id is the offset behind it. It ends with an `end` event.

    A job that has not started is waited for, an edge that does not answer too. A file that became shorter (the job
    was requeued) is told by a `reset` event and begun again. Raises RpcFailed when the job is not there any more.
    """
    with feed.subscribe(output.ref, entity=output.job.job_id) as changes:
        watch = _Watch(upstream, output, changes)
        text = Text(offset)
        while True:
            over = watch.over  # before the read: then what the read finds is all there will be
            wait_seconds = LAST_WAIT_SECONDS if over else WAIT_SECONDS
            try:
                chunk = await upstream.output(
                    output.ref, watch.job, output.stream, offset=text.read, wait_seconds=wait_seconds
                )
            except RpcFailed as failed:
                if failed.error.kind == "not_found":
                    if over:
                        break
                    await watch.wait(NO_FILE_SECONDS if watch.job.state == "RUNNING" else LOOK_SECONDS)
                elif failed.error.kind == "unavailable":
                    await watch.wait(RETRY_SECONDS)
                else:
                    raise
                continue
            if chunk.size < text.read:
                text = Text(0)
                yield ServerSentEvent('{"reason": "the output was begun anew"}', event="reset", id=0)
                continue
            for part, position in text.add(chunk.data):
                yield ServerSentEvent(part, id=position)
            if not chunk.data:
                if over:
                    break
                await watch.wait(0)
        if (rest := text.finish()) is not None:
            yield ServerSentEvent(rest[0], id=rest[1])
        yield ServerSentEvent(orjson.dumps({"state": watch.job.state}).decode(), event="end", id=text.read)
