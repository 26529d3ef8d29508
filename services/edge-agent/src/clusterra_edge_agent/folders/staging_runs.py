"""Answers requests to stage: starts the work in a thread, and lets a repeated request wait for it."""

import asyncio
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import structlog
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.rpc.edge_staging import Stage, Staged
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.folders.failures import failed, failure
from clusterra_edge_agent.folders.staging_work import StagingWork, WorkEnded
from clusterra_edge_agent.folders.user_process import FolderRefused, FolderUnavailable, UserProcesses
from clusterra_edge_agent.folders.user_turns import user_turns

log = structlog.get_logger(__name__)

THREADS = 4
"""How many pieces of work run at once. The others wait for their turn."""
THREADS_OF_USER = 2
MAX_WORKS = 32
"""How many pieces of work are known at most. Further requests are asked to retry."""
MAX_REQUESTS = 2 * MAX_WORKS
FORGOTTEN_SECONDS = 120.0
"""A piece of work for which nobody has asked for so long is ended and forgotten: whoever wanted it has died."""


class _Run:
    def __init__(self, work: StagingWork, task: "asyncio.Future[Staged]") -> None:
        self.work = work
        self.task = task
        self.asked_at = time.monotonic()


class StagingRuns:
    """The work of staging at this edge, a piece for each request."""

    def __init__(self, processes: UserProcesses) -> None:
        self._processes = processes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="staging")
        self._turns = user_turns(THREADS_OF_USER, MAX_WORKS)
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._ending = asyncio.Event()

    def end_works(self) -> None:
        """Ends all work soon. Whoever wanted it asks the next agent."""
        self._ending.set()
        for run in self._runs.values():
            run.work.end()

    def close(self) -> None:
        """Shuts the threads down."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def stage(self, _subject: Subject, request: Stage) -> Staged:
        """Return the result of the work, or how far it is when the time to wait is over.

        Raises RpcFailed: `not_found` and `forbidden` for the folder as a whole, `unavailable` for what may be tried
        again.
        """
        run = self._run(request)
        run.asked_at = time.monotonic()
        ending = asyncio.create_task(self._ending.wait())
        try:
            both = (run.task, ending)
            await asyncio.wait(both, timeout=request.wait_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        if not run.task.done():
            if self._ending.is_set():
                raise _agent_ends()
            return Staged(state="running", moved_bytes=run.work.moved_bytes)
        try:
            return run.task.result()
        except (FolderRefused, FolderUnavailable) as error:
            # Not kept: the next request tries again.
            self._runs.pop(request.id, None)
            raise failure(error) from None
        except (WorkEnded, asyncio.CancelledError):
            self._runs.pop(request.id, None)
            raise _agent_ends() from None

    def _run(self, request: Stage) -> _Run:
        self._forget()
        run = self._runs.get(request.id)
        if run is not None:
            return run
        if len(self._runs) >= MAX_WORKS:
            raise failed("unavailable", "too many files are being staged at this edge", "try again in a minute")
        work = StagingWork(self._processes, request)
        task = asyncio.create_task(self._worked(work, request.user.uid))
        task.add_done_callback(_noticed)
        log.info("staging_work_begins", work=request.work.work, uid=request.user.uid)
        run = self._runs[request.id] = _Run(work, task)
        return run

    async def _worked(self, work: StagingWork, uid: int) -> Staged:
        async with self._turns.turn(uid):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work.run)

    def _forget(self) -> None:
        before = time.monotonic() - FORGOTTEN_SECONDS
        for name, run in list(self._runs.items()):
            full = run.task.done() and len(self._runs) >= MAX_WORKS
            if run.asked_at < before or full:
                run.work.end()
                del self._runs[name]


def _agent_ends() -> RpcFailed:
    return failed("unavailable", "the edge-agent is ending", "try again in a moment")


def _noticed(task: "asyncio.Future[Staged]") -> None:
    """Whoever wanted the result of a failed work may be gone."""
    if not task.cancelled():
        task.exception()
