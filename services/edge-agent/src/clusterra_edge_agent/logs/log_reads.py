"""Answering log reads: a part of a job's output, or the wait for there to be more."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.logs import job_output

LOOK_SECONDS = 0.1
MAX_WAITING = 64
"""Readers that may wait for more at once; the next one is told to come back."""
MAX_READS = 2 * MAX_WAITING
"""Requests in work at once, so that those who do not wait have their turn too."""
_THREADS = 4


class Logs:
    """Reads in threads: the shared folder is a network file system, which may take its time."""

    def __init__(self, shared_dir: Path) -> None:
        self._shared_dir = shared_dir
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="logs")
        self._waiting = 0
        self._ending = asyncio.Event()

    def end_waits(self) -> None:
        """Answer all who wait now, and let nobody wait from now on."""
        self._ending.set()

    def close(self) -> None:
        """Read no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, _about: Subject, request: ReadLog) -> LogChunk:
        """The asked bytes, at the end of the file as soon as there are any, or none after `wait_seconds`.

        Raises RpcFailed: `not_found`; `unavailable` when the folder cannot be read or too many wait.
        """
        place = await self._in_thread(
            lambda: job_output.find(self._shared_dir, request.job_id, request.stream, request.uid)
        )
        chunk = await self._chunk(place, request)
        if chunk.data or not request.wait_seconds:
            return chunk
        if self._waiting >= MAX_WAITING:
            raise _failed("unavailable", "too many readers wait for output at this edge", "try again in a second")
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(request.wait_seconds):
                    while not chunk.data and not self._ending.is_set():
                        await self._pause()
                        chunk = await self._chunk(place, request)
        finally:
            self._waiting -= 1
        return chunk

    async def _chunk(self, place: job_output.Place, request: ReadLog) -> LogChunk:
        data, size = await self._in_thread(
            lambda: job_output.read(self._shared_dir, place, request.uid, request.offset, request.limit)
        )
        # Not validated: pydantic would take the bytes for base64 already.
        return LogChunk.model_construct(offset=request.offset, size=size, data=data)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._ending.wait()

    async def _in_thread[T](self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except job_output.NoSuchOutput:
            raise _failed(
                "not_found",
                "there is no such output of this job",
                "it appears when the job writes to job_<id>.out or slurm-<id>.out in the shared folder",
            ) from None
        except OSError as error:
            raise _failed(
                "unavailable", f"the shared folder cannot be read ({error.strerror})", "try again later"
            ) from error


def _failed(kind: ErrorKind, detail: str, hint: str) -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail, hint=hint))
