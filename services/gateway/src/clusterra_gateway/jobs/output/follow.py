"""Follows a job's output from a byte offset as the job writes it, until the job has ended and everything is read.

All followers of an output that have read everything wait for the same bytes. So the edge has one reader for each output
and gateway, however many people follow it. A follower who is behind reads by itself until it has caught up.
"""

import codecs
import io
import time
from collections.abc import AsyncGenerator
from functools import partial

import orjson
from clusterra_contracts.events import Fact, JobFact
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.slurm import Job
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.single_flight import SingleFlight

from clusterra_gateway.bus.event_feed import EventFeed, SubscriberTooSlow, Subscription
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.http.answers.sse import ServerSentEvent
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.jobs.output.output import Output

MAX_EVENT_BYTES = 8192
"""Longer pieces are split, for clients that read lines into a buffer of fixed size."""


class OutputDecoder:
    """Turns bytes into text without ever splitting a character or a CR LF.

    Bytes that are not UTF-8 become U+FFFD. CR LF and CR become LF, because SSE cannot carry them.
    """

    def __init__(self, offset: int) -> None:
        self._read = offset
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)

    @property
    def read(self) -> int:
        """The offset of the first byte that was not added yet."""
        return self._read

    @property
    def offset(self) -> int:
        """The offset to resume from: of the first byte in no text yet, such as that of an unfinished character."""
        unfinished, pending_cr = self._decoder.getstate()
        return self._read - len(unfinished) - (pending_cr & 1)

    def add(self, data: bytes) -> list[tuple[str, int]]:
        """The texts that these bytes complete, each with the offset behind it."""
        texts = []
        for start in range(0, len(data), MAX_EVENT_BYTES):
            piece = data[start : start + MAX_EVENT_BYTES]
            text = self._decoder.decode(piece)
            self._read += len(piece)
            if text:
                texts.append((text, self.offset))
        return texts

    def finish(self) -> tuple[str, int] | None:
        """The text of the unfinished rest, when no more bytes will come, with the offset behind it."""
        text = self._decoder.decode(b"", final=True)
        return (text, self._read) if text else None


type _Part = tuple[ClusterRef, ReadLog]


WAIT_SECONDS = 2.0
"""How long one read waits for more output at the end of the file."""
LAST_WAIT_SECONDS = 0.5
"""The same after the job has ended. On a network file system, a job's last output may appear this late."""
POLL_SECONDS = 15.0
"""Interval between reads of the job's state. Events report changes sooner, but may be missed."""
NO_FILE_SECONDS = 0.5
"""Interval between reads while a running job has no output file yet."""
RETRY_SECONDS = 1.0
"""Interval between reads while the edge does not answer."""
COMPARED_BYTES = 64
"""Number of bytes before a follower's position that must be unchanged in the output of a requeued job."""
RESTARTED = '{"reason": "the output was restarted"}'


class _JobState:
    """Knows whether the job has ended: reads its state after an event about it, and every 15 s."""

    def __init__(self, slurm: SlurmRequests, output: Output, events: Subscription) -> None:
        self._slurm = slurm
        self._output = output
        self._events = events
        self._polled_at = time.monotonic()
        self.job = output.job

    @property
    def ended(self) -> bool:
        return self.job.state in ENDED

    @property
    def attempt(self) -> int:
        """Index of the newest attempt that may have written output. A requeued job's next attempt counts once it runs.

        Before its first attempt a job has index 0: its output may be read before its record says that it runs.
        """
        return max(0, self.job.restarts - (self.job.state == "PENDING"))

    async def wait(self, seconds: float) -> None:
        """Waits for an event about the job, but no longer than this, and reads the job's state where that is due."""
        try:
            changed = await self._events.wait(seconds) is not None
        except SubscriberTooSlow:
            self._events.restart()
            changed = True  # for all that is known
        if changed or time.monotonic() - self._polled_at >= POLL_SECONDS:
            self._polled_at = time.monotonic()
            try:
                self.job = await self._slurm.job(self._output.ref, self._output.viewer, self.job.job_id)
            except RpcFailed as failed:
                if failed.error.kind != "unavailable":
                    raise


class OutputFollower:
    """Follows outputs of jobs. Whoever asks has the right to see the output: that is checked before."""

    def __init__(self, slurm: SlurmRequests, edge: EdgeRequests, feed: EventFeed) -> None:
        self._slurm = slurm
        self._edge = edge
        self._feed = feed
        self._reads = SingleFlight[_Part, LogChunk]()

    async def follow(self, output: Output, *, offset: int) -> AsyncGenerator[ServerSentEvent]:
        """The output from a byte offset on. The id of each event is the offset after its text; `end` is the last event.

        Waits for a job that has not started, and for an edge that does not answer. When a requeued job runs again,
        sends `reset` and starts from the beginning: Slurm empties its output (`JobFileAppend`, sbatch --open-mode).
        Ends at once when Slurm tells a path that cannot be read. Raises RpcFailed when the job no longer exists.
        """

        def about_the_job(fact: Fact) -> bool:
            return isinstance(fact, JobFact) and fact.job_id == output.job.job_id

        with self._feed.subscribe(output.ref, visible=about_the_job) as events:
            state = _JobState(self._slurm, output, events)
            text, attempt, last = OutputDecoder(offset), state.attempt, b""
            while True:
                ended = state.ended  # checked before the read, so that a read after the end finds the whole output
                wait_seconds = LAST_WAIT_SECONDS if ended else WAIT_SECONDS
                try:
                    chunk = await self._read(output.ref, output.part(state.job, text.read, wait_seconds))
                    emptied = chunk.size < text.read or await self._rewritten(output, state.job, text.read, last)
                except NotFound:
                    break
                except RpcFailed as failed:
                    if failed.error.kind == "not_found":
                        if ended:
                            break
                        await state.wait(NO_FILE_SECONDS if state.job.state == "RUNNING" else POLL_SECONDS)
                    elif failed.error.kind == "unavailable":
                        await state.wait(RETRY_SECONDS)
                    else:
                        raise
                    continue
                restarted, attempt = state.attempt > attempt, state.attempt
                if text.read and (emptied or restarted):
                    text, last = OutputDecoder(0), b""
                    yield ServerSentEvent(RESTARTED, event="reset", id=0)
                    continue
                for part, position in text.add(chunk.data):
                    yield ServerSentEvent(part, id=position)
                last = (last + chunk.data)[-COMPARED_BYTES:]
                if not chunk.data:
                    if ended:
                        break
                    await state.wait(0)
            if (rest := text.finish()) is not None:
                yield ServerSentEvent(rest[0], id=rest[1])
            yield ServerSentEvent(orjson.dumps({"state": state.job.state}).decode(), event="end", id=text.read)

    async def _rewritten(self, output: Output, job: Job, position: int, last: bytes) -> bool:
        """Whether the bytes before a position differ from those that were read: the output was emptied and grew.

        Slurm's records tell of a restart before the file does. Raises NotFound and RpcFailed, as a read does.
        """
        if not job.restarts or not last:
            return False
        before = output.part(job, position - len(last), limit=len(last))
        return (await self._read(output.ref, before)).data != last

    async def _read(self, ref: ClusterRef, part: ReadLog) -> LogChunk:
        return await self._reads.get((ref, part), partial(self._edge.output, ref, part))
