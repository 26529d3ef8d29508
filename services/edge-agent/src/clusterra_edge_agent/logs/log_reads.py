"""Answers log reads: returns part of a job's output, or waits until there is more."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from pathlib import Path

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.logs import job_output

POLL_SECONDS = 0.1
MAX_WAITING = 64
"""Maximum number of concurrent waiting readers. Further ones are asked to retry."""
MAX_READS = 2 * MAX_WAITING
"""Maximum number of concurrent requests. It leaves room for requests that do not wait."""
_THREADS = 4


type OpenAs = Callable[[int, str], AbstractAsyncContextManager[int]]
"""Opens a file of the shared folder, by its path there, with the rights of a uid. Raises FileNotFoundError, OSError.

In none of the threads here: a user can hold up the process that opens files as them.
"""
type Read = Callable[[], tuple[bytes, int]]


class LogReader:
    """Reads in threads, because the shared folder is a network file system and may be slow.

    Outputs that are closed to the agent, such as those in homes, are opened by `open_as` with their owner's rights.
    """

    def __init__(self, shared_dir: Path, open_as: OpenAs) -> None:
        self._shared_dir = shared_dir
        self._open_as = open_as
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="logs")
        self._waiting = 0
        self._ending = asyncio.Event()

    def end_waits(self) -> None:
        """Answers all waiting readers now, and lets none wait any more."""
        self._ending.set()

    def close(self) -> None:
        """Shuts the threads down."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, _subject: Subject, request: ReadLog) -> LogChunk:
        """Returns the requested bytes. At the end of the file, waits up to `wait_seconds` for more, then returns none.

        Raises RpcFailed: `not_found`; `unavailable` when the folder cannot be read or has too many entries, or when
        too many readers wait.
        """
        async with AsyncExitStack() as opened:
            return await self._read(await self._found(request, opened), request)

    async def _read(self, read: Read, request: ReadLog) -> LogChunk:
        chunk = await self._chunk(read, request)
        if chunk.data or not request.wait_seconds:
            return chunk
        if self._waiting >= MAX_WAITING:
            raise _failed("unavailable", "too many readers are waiting for output at this edge", "retry in a second")
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(request.wait_seconds):
                    while not chunk.data and not self._ending.is_set():
                        await self._pause()
                        chunk = await self._chunk(read, request)
        finally:
            self._waiting -= 1
        return chunk

    async def _found(self, request: ReadLog, opened: AsyncExitStack) -> Read:
        """How the output is read. What is opened for that is closed with `opened`."""
        uid, offset, limit = request.uid, request.offset, request.limit
        with _told():
            try:
                location = await self._in_thread(lambda: self._located(request))
            except job_output.ClosedOutput:
                if request.path is None:
                    raise
                # Opened once for all reads of this request: each opening starts a process.
                try:
                    file = await opened.enter_async_context(self._open_as(uid, request.path))
                except FileNotFoundError:
                    raise job_output.NoSuchOutput from None
                return lambda: job_output.read_opened(file, uid, offset, limit)
        return lambda: job_output.read(self._shared_dir, location, uid, offset, limit)

    def _located(self, request: ReadLog) -> job_output.OutputLocation:
        if request.path is None:
            return job_output.find(self._shared_dir, request.job_id, request.stream, request.uid)
        return job_output.located(self._shared_dir, request.path, request.uid)

    async def _chunk(self, read: Read, request: ReadLog) -> LogChunk:
        with _told():
            data, size = await self._in_thread(read)
        # Not validated: pydantic would take the bytes for base64.
        return LogChunk.model_construct(offset=request.offset, size=size, data=data)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._ending.wait()

    async def _in_thread[T](self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@contextmanager
def _told() -> Iterator[None]:
    """Raises the errors of looking and reading as answers."""
    try:
        yield
    except job_output.NoSuchOutput:
        raise _failed(
            "not_found",
            "this job has no such output",
            "the output appears once the job writes to its file in the shared folder, where the agent may read it",
        ) from None
    except job_output.SearchLimit:
        raise _failed(
            "unavailable",
            "the shared folder has too many entries to find this output in its subfolders",
            "write the output to the shared folder itself, or remove what nobody needs there",
        ) from None
    except OSError as error:
        raise _failed("unavailable", f"the shared folder cannot be read ({error.strerror})", "retry later") from error


def _failed(kind: ErrorKind, detail: str, hint: str) -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail, hint=hint))
