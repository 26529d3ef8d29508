"""One job of an executor: a call, or an array of calls, from the files that are sent to the results that come back."""

import io
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, override

from clusterra.client import Client
from clusterra.errors import AnswerTooLong, BucketRefused, ClusterraError, NotFound
from clusterra.executor.errors import CallFailed, ResultNotRead
from clusterra.executor.pickling import Call, Plan, opened, written
from clusterra.files.files import Files
from clusterra.http.retrying import is_transient
from clusterra.job import Job
from clusterra.models import JobRecord
from clusterra.operations.jobs import Fields
from clusterra.operations.waiting import Awaited, has_ended

MAX_RESULT_BYTES = 1024 * 1024 * 1024
SHOWN_LINES = 50
COLLECTING_SECONDS = 900.0
"""For how long the result of a job that has ended is tried to be read."""
RETRY_SECONDS = 1.0
_STAGED = ("done", "failed")


class ClusterFuture(Future[Any]):
    """The result of a call that runs as a job. `cancel` also cancels the job, waiting or running."""

    def __init__(self) -> None:
        super().__init__()
        self._changing = threading.Lock()
        self._cancelled = False
        self._on_cancel: Callable[[], None] = lambda: None
        self.job: Job | None = None
        """The job, or its task of an array; None until it is submitted."""

    @override
    def cancel(self) -> bool:
        """Cancel the call and its job. False where its result is there already."""
        with self._changing:
            if not super().cancel():
                return False
            first, self._cancelled = not self._cancelled, True
        if first:
            self.set_running_or_notify_cancel()
            self._on_cancel()
        return True

    def when_cancelled(self, act: Callable[[], None]) -> None:
        """Have this done when the future is cancelled; at once if it was already."""
        with self._changing:
            self._on_cancel = act
            if not self._cancelled:
                return
        act()

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Give it its result or its error, unless it was cancelled."""
        with self._changing:
            if self.done() or not self.set_running_or_notify_cancel():
                return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Where the jobs of an executor run, and what they are."""

    client: Client
    fields: Fields
    python: str
    cluster: str | None
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def folder(self) -> str:
        """The working directory in the cluster's shared folder. Nobody can guess it, or make it first."""
        return f".clusterra-executor-{self.token}"

    @property
    def sent(self) -> str:
        """The folder of the bucket with the calls."""
        return f"scripts/clusterra-executor/{self.token}"

    @property
    def received(self) -> str:
        """The folder of the bucket with the results."""
        return f"outputs/clusterra-executor/{self.token}"


@dataclass(slots=True)
class Batch:
    """One job. `tasks` has the calls of each task; a task has one future, whose value is the list of their results."""

    jobs: JobPlan
    name: str
    function: Callable[..., Any]
    tasks: Sequence[Sequence[Call]]
    futures: Sequence[ClusterFuture]
    at_once: int
    """The most tasks that run at the same time."""
    single: bool = False
    """Whether the value of a future is the one result of its task."""
    job: Job | None = None
    _plan: Plan | None = None

    def prepare(self) -> tempfile.SpooledTemporaryFile[bytes]:
        """Pickle the calls. Raises CannotPickle."""
        kept = tempfile.SpooledTemporaryFile(max_size=1024 * 1024)  # noqa: SIM115 - `send` closes it
        try:
            self._plan = written(self.name, self.function, self.tasks, kept)  # type: ignore[arg-type]
        except BaseException:
            kept.close()
            raise
        kept.seek(0)
        self.tasks = ()  # only their pickles are needed from here on
        return kept

    def send(self, calls: tempfile.SpooledTemporaryFile[bytes]) -> bool:
        """Upload the calls and submit the job. False where all its futures were cancelled before."""
        with calls:
            if all(each.done() for each in self.futures):
                return False
            assert self._plan is not None  # noqa: S101 - `prepare` was called
            jobs, client, plan = self.jobs, self.jobs.client, self._plan
            self._files.upload(calls, f"{jobs.sent}/{plan.calls}")  # type: ignore[arg-type]
        array = {} if len(self.futures) == 1 else {"array": f"0-{len(self.futures) - 1}%{self.at_once}"}
        self.job = client.submit(
            plan.script(jobs.python),
            {"name": "executor", **jobs.fields, "current_working_directory": jobs.folder, **array},
            cluster=jobs.cluster,
            stage_in=[{"source": f"{jobs.sent}/{plan.calls}", "destination": plan.calls}],
            stage_out=[{"source": f"{self.name}-*.result", "destination": f"{jobs.received}/"}],
        )
        for index, future in enumerate(self.futures):
            future.job = self.task(index)
        return True

    def task(self, index: int) -> Job:
        """The job of a future."""
        assert self.job is not None  # noqa: S101 - it was sent
        alone = len(self.futures) == 1
        return self.job if alone else self.jobs.client.job(f"{self.job.id}_{index}", cluster=self.jobs.cluster)

    def cancel(self, index: int) -> None:
        """Cancel the job of one future; the whole job where no other is wanted."""
        if self.job is None:
            return
        wanted = not all(each.done() for each in self.futures)
        with suppress(ClusterraError):
            (self.task(index) if wanted else self.job).cancel()

    @property
    def awaited(self) -> Awaited:
        """The job as it is awaited: until its results are in the bucket."""
        assert self.job is not None  # noqa: S101 - it was sent
        of_job = self.job.awaited
        return Awaited(of_job.api, of_job.job_id, of_job.path, of_job.events_path, _is_over)

    def collect(self, record: JobRecord | None) -> None:
        """Settle all futures, and remove the files from the bucket. A result that was not read stays there.

        `record` is None for a job that Slurm has forgotten.
        """
        assert self._plan is not None  # noqa: S101 - it was sent
        read = [f"{self.jobs.sent}/{self._plan.calls}"]
        for index, future in enumerate(self.futures):
            path = self._result_path(index)
            if future.done():
                read.append(path)
                continue
            try:
                sealed = self._downloaded(path)
            except BaseException as error:
                future.settle(error=self._not_read(index, error))
                continue
            read.append(path)
            if sealed is None:
                future.settle(error=self._failed(index, record))
                continue
            try:
                values = opened(self._plan, index, sealed)
            except BaseException as error:
                future.settle(error=error)
            else:
                future.settle(values[0] if self.single else values)
        with suppress(ClusterraError):
            self._files.delete_many(read)

    def fail(self, error: BaseException) -> None:
        """Settle all futures with an error. Jobs that were submitted go on."""
        for index, each in enumerate(self.futures):
            each.settle(error=error if self.job is None else self._not_read(index, error))

    @property
    def _files(self) -> Files:
        client, cluster = self.jobs.client, self.jobs.cluster
        return client.files if cluster is None else client.files.on(cluster)

    def _result_path(self, index: int) -> str:
        assert self._plan is not None  # noqa: S101 - it was prepared
        return f"{self.jobs.received}/{self._plan.result(index)}"

    def _not_read(self, index: int, error: BaseException) -> ResultNotRead:
        made = ResultNotRead(self.task(index).id, self._result_path(index), error)
        made.__cause__ = error
        return made

    def _downloaded(self, path: str) -> bytes | None:
        """A result; None where there is none. The gateway and the bucket may be away for COLLECTING_SECONDS."""
        ends = time.monotonic() + COLLECTING_SECONDS
        while True:
            sealed = _Bounded()
            try:
                self._files.download(path, sealed)
            except NotFound:
                return None
            except ClusterraError as error:
                away = is_transient(error) or (isinstance(error, BucketRefused) and error.status >= 500)
                if not away or time.monotonic() > ends:
                    raise
                time.sleep(RETRY_SECONDS)
            else:
                return sealed.getvalue()

    def _failed(self, index: int, record: JobRecord | None) -> CallFailed:
        """Why a task has no result."""
        task = self.task(index)
        if record is None:
            return CallFailed(task.id, "UNKNOWN", "Slurm no longer knows the job", "")
        with suppress(ClusterraError):
            record = task.refresh() if len(self.futures) > 1 else record
        reason = "" if record.reason in ("", "None") else record.reason
        staging = record.staging
        if staging is not None and staging.errors:
            reason = staging.errors[0]
        output = ""
        with suppress(ClusterraError):
            output = task.output(tail=SHOWN_LINES)
        return CallFailed(task.id, record.state, reason, output)


def _is_over(record: JobRecord) -> bool:
    return has_ended(record) and (record.staging is None or record.staging.state in _STAGED)


class _Bounded(io.BytesIO):
    """Bytes up to a bound."""

    @override
    def write(self, piece: Any) -> int:
        if self.tell() + len(piece) > MAX_RESULT_BYTES:
            raise AnswerTooLong(f"a result has more than {MAX_RESULT_BYTES} bytes: write it to a file")
        return super().write(piece)
