"""The process that decides for the large clusters of this replica: started when one is there, and again when it dies.

A large cluster's work takes seconds: reading its queue, deciding, writing its state. In the replica's own process,
threads for it would delay the decisions of all small clusters, because they share one interpreter lock.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.lease_terms import Lease
from clusterra_runtime.process_metrics import SUBPROCESSES

from clusterra_scaler.fleets import FencedOff
from clusterra_scaler.large_process.messages import LINE_BYTES, REPORT, Changed, Ended, Held, Metrics, Run, Stop, line

log = structlog.get_logger(__name__)

NAME = "large"
"""The process's name in logs and metrics."""
HELD_SECONDS = 1.0
"""How often the process is told which leases are held."""
STOP_SECONDS = 1.0
"""How long the end of a lease waits for the process to stop deciding. Its next holder is safe without: by its fence."""
EXIT_SECONDS = 3.0
"""How long the process may take to end, before it is killed."""
SILENT_SECONDS = 60.0
"""A process that tells nothing for so long is killed. It tells its metrics every few seconds, beside all decisions."""


class ProcessEnded(Exception):
    """The process has ended, so that nobody decides for its clusters."""


@dataclass
class _Running:
    """One process, and the clusters that it decides for."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ended: dict[ClusterRef, asyncio.Future[Ended]] = field(default_factory=dict)
    heard_at: float = field(default_factory=time.monotonic)


class LargeProcess:
    """Starts the process when `run` needs it, and ends it with the `async with` block."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._starting = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._fences: Mapping[int, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def run(self, ref: ClusterRef, lease: Lease) -> None:
        """Let the process decide for a cluster until cancelled, or until the cluster is gone.

        Raises FencedOff, and ProcessEnded: then it may be started again.
        """
        running = await self._process()
        ended = running.ended[ref] = asyncio.get_running_loop().create_future()
        try:
            # A lease that has just been acquired: without this, the process would not act under it for up to a second.
            self._fences = {**self._fences, lease.shard: lease.fence}
            self._send(running, Held(fences=dict(self._fences)))
            self._send(running, Run(ref=ref, shard=lease.shard, fence=lease.fence))
            try:
                outcome = await asyncio.shield(ended)
            except asyncio.CancelledError:
                self._send(running, Stop(ref=ref))
                with suppress(ProcessEnded, TimeoutError):
                    async with asyncio.timeout(STOP_SECONDS):
                        await ended
                raise
        finally:
            if running.ended.get(ref) is ended:
                del running.ended[ref]
        if outcome.fenced_off_by is not None:
            raise FencedOff(ref, outcome.fenced_off_by, lease.fence)

    def on_snapshot(self, ref: ClusterRef) -> None:
        """Tell the process that a cluster has a new snapshot."""
        if self._running is not None and ref in self._running.ended:
            self._send(self._running, Changed(ref=ref))

    def hold(self, held: Mapping[int, Lease]) -> None:
        """Tell the process which leases are held. Call it every `HELD_SECONDS`."""
        self._fences = {shard: lease.fence for shard, lease in held.items()}
        if self._running is not None:
            self._send(self._running, Held(fences=dict(self._fences)))

    def _send(self, running: _Running, message: Run | Stop | Changed | Held) -> None:
        # What the process does not take in time is bounded: it is killed when it is silent.
        if not running.writer.is_closing():
            running.writer.write(line(message))

    async def _process(self) -> _Running:
        async with self._starting:
            if self._running is None:
                self._running = await self._start()
                self._following = asyncio.create_task(self._follow(self._running), name="large-process")
            return self._running

    async def _start(self) -> _Running:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours, limit=LINE_BYTES)
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "clusterra_scaler.large_process", str(theirs.fileno())),
                    pass_fds=(theirs.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                )
            except OSError as error:
                writer.close()
                raise ProcessEnded(f"the process for large clusters does not start: {error}") from error
        log.info("large_process_started", pid=process.pid)
        return _Running(process, reader, writer)

    async def _follow(self, running: _Running) -> None:
        """Read what the process tells, until it ends or this is cancelled. Then nothing of it is left."""
        reason = "it has ended"
        try:
            while True:
                async with asyncio.timeout(SILENT_SECONDS):
                    told = await running.reader.readline()
                if not told:
                    break
                self._take(running, told)
        except TimeoutError:
            reason = f"it has told nothing for {SILENT_SECONDS:g} s"
        except (ValueError, OSError) as error:
            reason = f"it told something unreadable: {type(error).__name__}"
        finally:
            self._running = None
            SUBPROCESSES.forget(NAME)
            running.writer.close()
            for ended in running.ended.values():
                if not ended.done():
                    ended.set_exception(ProcessEnded(f"the process for large clusters is gone: {reason}"))
                    # Whoever waits for it may have been cancelled.
                    ended.exception()
            status = await _end(running.process)
        log.warning("large_process_ended", pid=running.process.pid, status=status, reason=reason)

    def _take(self, running: _Running, told: bytes) -> None:
        report = REPORT.validate_json(told)
        if isinstance(report, Metrics):
            SUBPROCESSES.tell(NAME, report.families)
        elif (ended := running.ended.get(report.ref)) is not None and not ended.done():
            ended.set_result(report)


async def _end(process: asyncio.subprocess.Process) -> int:
    """Wait for the end of a process whose socket is closed, and kill it if need be. Returns its status."""
    try:
        async with asyncio.timeout(EXIT_SECONDS):
            return await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
