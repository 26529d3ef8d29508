"""`ClusterExecutor`: calls of Python functions as jobs, behind the interface of `concurrent.futures`."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import batched
from types import MappingProxyType
from typing import Any, override

from clusterra.client import Client
from clusterra.errors import ClusterraError, NotFound
from clusterra.executor.batches import RETRY_SECONDS, Batch, ClusterFuture, JobPlan
from clusterra.executor.pickling import Call
from clusterra.operations.jobs import Fields
from clusterra.operations.waiting import Awaited, completed

MAX_ARRAY = 1000
"""The most tasks of one array: Slurm's usual `MaxArraySize` is 1001."""
THREADS = 4
_NO_FIELDS: Fields = MappingProxyType({})


class ClusterExecutor(Executor):
    """Runs functions as jobs of a cluster that has a bucket.

    A call is pickled, copied to the cluster as a file of the bucket, and run by `python` on a worker. Its result, or
    its exception, comes back the same way. A job that ends without a result makes CallFailed, with its state and the
    end of its output.
    """

    def __init__(
        self,
        job: Fields = _NO_FIELDS,
        *,
        client: Client | None = None,
        cluster: str | None = None,
        max_jobs: int = 100,
        python: str = "python3",
    ) -> None:
        """`job` has fields of each job, such as `{"cpus_per_task": 4, "time_limit": 60}` (minutes).

        At most `max_jobs` jobs, or tasks of one array, are on the cluster at the same time; further calls wait here.
        `python` is a program of the workers, or its path there. Without a `client`, one is made as `Client()` is.
        """
        if max_jobs < 1:
            raise ValueError("max_jobs is at least 1")
        self._own = client is None
        self._jobs = JobPlan(client or Client(), dict(job), python, cluster)
        self._max_jobs = max_jobs
        self._pool = ThreadPoolExecutor(THREADS, "clusterra-executor")
        self._changing = threading.Condition()
        self._waiting: deque[tuple[Batch, Any]] = deque()
        self._arrived: list[Batch] = []
        self._sent: dict[str, Batch] = {}
        self._batches: dict[int, Batch] = {}
        self._started = 0
        self._running = 0
        self._closed = False
        self._watcher: threading.Thread | None = None

    @override
    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ClusterFuture:
        """Run a call as one job. Raises CannotPickle."""
        future = ClusterFuture()
        self._begin(function, [[(args, kwargs)]], [future], single=True)
        return future

    @override
    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """The results of the calls with the elements of the iterables, in their order, as one array of jobs.

        `chunksize` calls run in each task. Results come back when the array has ended; of more than 1,000 tasks, there
        are several arrays. What is not read when the iterator is closed is cancelled.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        tasks: list[tuple[Call, ...]] = list(
            batched(((each, {}) for each in zip(*iterables, strict=False)), max(1, chunksize))
        )
        futures = [ClusterFuture() for _ in tasks]
        for begin in range(0, len(tasks), MAX_ARRAY):
            end = begin + MAX_ARRAY
            self._begin(fn, tasks[begin:end], futures[begin:end])
        return _results(futures, ends)

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With `wait`, until all have ended; `cancel_futures` cancels them, with their jobs."""
        with self._changing:
            self._closed = True
            batches = list(self._batches.values())
            self._changing.notify_all()
        if cancel_futures:
            for batch in batches:
                for future in batch.futures:
                    future.cancel()
        if wait:
            with self._changing:
                while self._batches:
                    self._changing.wait()
            self._pool.shutdown()
            if self._watcher is not None:
                self._watcher.join()
            if self._own:
                self._jobs.client.close()

    def _begin(
        self, function: Callable[..., Any], tasks: Any, futures: list[ClusterFuture], *, single: bool = False
    ) -> None:
        with self._changing:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._started += 1
            number = self._started
        batch = Batch(self._jobs, f"batch-{number}", function, tasks, futures, self._max_jobs, single)
        calls = batch.prepare()
        with self._changing:
            self._batches[number] = batch
            self._waiting.append((batch, calls))
        for index, future in enumerate(futures):
            future.when_cancelled(lambda at=index: self._cancel(batch, at))  # type: ignore[misc]
        self._start_some()

    def _start_some(self) -> None:
        """Send what may run now."""
        with self._changing:
            while self._waiting and self._running < self._max_jobs:
                batch, calls = self._waiting.popleft()
                self._running += 1
                self._pool.submit(self._send, batch, calls)

    def _send(self, batch: Batch, calls: Any) -> None:
        try:
            sent = batch.send(calls)
        except BaseException as error:
            batch.fail(error)
            sent = False
        if not sent:
            self._ended(batch)
            return
        with self._changing:
            self._arrived.append(batch)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="clusterra-executor-watch", daemon=True)
                self._watcher.start()
            self._changing.notify_all()
        for index, future in enumerate(batch.futures):
            if future.cancelled():  # while it was being sent
                batch.cancel(index)

    def _cancel(self, batch: Batch, index: int) -> None:
        if batch.job is not None:
            self._pool.submit(batch.cancel, index)

    def _watch(self) -> None:
        """Wait for the ends of jobs, all by one stream of events."""
        while True:
            with self._changing:
                while not (self._arrived or (self._closed and not self._batches)):
                    self._changing.wait()
                if not self._arrived:
                    return
            try:
                self._watch_these(self._arrivals())
            except NotFound:
                self._collect_forgotten()
            except BaseException as error:
                with self._changing:
                    lost, self._sent = list(self._sent.values()), {}
                for batch in lost:
                    batch.fail(error)
                    self._ended(batch)

    def _collect_forgotten(self) -> None:
        """Slurm has forgotten a job, such as after this machine has slept for long. Its result may be there.

        The others are awaited again.
        """
        time.sleep(RETRY_SECONDS)
        with self._changing:
            sent, self._sent = list(self._sent.values()), {}
        for batch in sent:
            try:
                if batch.job is not None:
                    batch.job.refresh()
            except NotFound:
                self._pool.submit(self._collect, batch, None)
                continue
            except ClusterraError:
                pass
            with self._changing:
                self._arrived.append(batch)

    def _watch_these(self, awaited: list[Awaited]) -> None:
        transport = self._jobs.client._transport
        for job_id, record in transport.iterate(completed(awaited, None, arrivals=self._arrivals)):
            with self._changing:
                batch = self._sent.pop(job_id)
            self._pool.submit(self._collect, batch, record)

    def _arrivals(self) -> list[Awaited]:
        with self._changing:
            arrived, self._arrived = self._arrived, []
            found = [(each.awaited, each) for each in arrived]
            self._sent |= {awaited.job_id: each for awaited, each in found}
        return [awaited for awaited, _ in found]

    def _collect(self, batch: Batch, record: Any) -> None:
        try:
            batch.collect(record)
        except BaseException as error:
            batch.fail(error)
        finally:
            self._ended(batch)

    def _ended(self, batch: Batch) -> None:
        with self._changing:
            self._running -= 1
            self._batches = {number: each for number, each in self._batches.items() if each is not batch}
            self._changing.notify_all()
        self._start_some()


def _results(futures: list[ClusterFuture], ends: float | None) -> Iterator[Any]:
    left = deque(futures)
    try:
        while left:
            future = left.popleft()
            yield from future.result(None if ends is None else ends - time.monotonic())
    finally:
        for each in left:
            each.cancel()
