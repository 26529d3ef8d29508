"""Waits until a job has ended: by the stream of the cluster's events, and by reading the job from time to time.

Events name an end at once. The reads are for what no event names, such as an end while the stream was broken; their
intervals grow. A gateway that does not answer is waited for: nobody knows then whether the job has ended.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from clusterra.errors import ClusterraError, Forbidden, WaitTimeout
from clusterra.exchange import Emit, Open, Pause, Request, Step, Steps, Stream, next_of, now, pause
from clusterra.http.retrying import is_transient
from clusterra.http.sse import ServerSentEvent
from clusterra.http.streams import SILENCE_SECONDS, resumed
from clusterra.models import JobRecord
from clusterra.operations.api import Api

ENDED_STATES = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    }
)
"""Slurm's states of a job that has ended. A state that is not among them is not an end."""
FIRST_INTERVAL_SECONDS = 2.0
LONGEST_INTERVAL_SECONDS = 60.0
SHORT_INTERVAL_SECONDS = 1.0
GROWTH = 1.5
SILENT_SECONDS = 16.0
"""A stream is silent for at most 15 s, the interval of the gateway's pings."""
END_KINDS = frozenset({"job.completed", "job.failed", "job.cancelled", "job.timeout"})
READS_AFTER_END = 6
AFTER_END_SECONDS = 0.5
LAST_LOOK_SECONDS = 5.0
"""When the caller's time is over, the jobs are read once more, for so long at most."""


def has_ended(record: JobRecord) -> bool:
    """Whether a job has ended. The rest of an array whose tasks wait has not."""
    return record.state in ENDED_STATES and not record.array_tasks


@dataclass(slots=True)
class _Reads:
    """When the job is read next."""

    due: float
    interval: float = field(default=FIRST_INTERVAL_SECONDS)

    def done(self, at: float) -> None:
        self.due = at + self.interval
        self.interval = min(self.interval * GROWTH, LONGEST_INTERVAL_SECONDS)


@dataclass(frozen=True, slots=True)
class Awaited:
    """A job, and where it and the events of its cluster are."""

    api: Api
    job_id: str
    path: str
    events_path: str
    over: Callable[[JobRecord], bool] = has_ended
    """Whether nothing more is awaited of a job that has ended, such as copies of its files."""


class Waitable(Protocol):
    """A handle of a job."""

    @property
    def awaited(self) -> Awaited:
        """The job as it is awaited."""


def of_one_cluster(jobs: Sequence[Waitable]) -> list[Awaited]:
    """The jobs as they are awaited. Raises ValueError for jobs of several clusters."""
    awaited = [job.awaited for job in jobs]
    if len({each.events_path for each in awaited}) > 1:
        raise ValueError("the jobs are of several clusters: wait for those of each cluster apart")
    return awaited


type Ended = tuple[str, JobRecord]
"""The id of a job that has ended, and its record."""
type _Waiting = dict[str, tuple[Awaited, _Reads]]


def wait(job: Awaited, timeout: float | None, *, by_events: bool = True) -> Steps[JobRecord]:
    """The record of a job that has ended. `timeout` is in seconds, None for no limit.

    Raises WaitTimeout, and the errors of `clusterra.errors` that do not pass, such as SignInNeeded and NotFound.
    """
    completing = completed((job,), timeout, by_events=by_events)
    ended = yield from next_of(completing)
    completing.close()
    assert ended is not None  # noqa: S101 - without an end it has raised WaitTimeout
    return ended.value[1]


def completed(
    jobs: Sequence[Awaited],
    timeout: float | None,
    *,
    by_events: bool = True,
    arrivals: Callable[[], Sequence[Awaited]] = lambda: (),
) -> Stream[Ended]:
    """The jobs of one cluster as they end. All share one stream of events. Raises what `wait` raises.

    `arrivals` returns further jobs of the cluster, which are awaited from then on. It is asked as long as others are
    awaited.
    """
    began = yield from now()
    ends = None if timeout is None else began + timeout
    left = {job.job_id: (job, _Reads(began)) for job in jobs}
    if by_events and left:
        yield from _by_events(jobs[0], left, ends, arrivals)
    if left:
        yield from _by_reads(left, ends, arrivals)
    if left:
        named = f"job {next(iter(left))}" if len(jobs) == 1 else f"{len(left)} of {len(jobs)} jobs"
        raise WaitTimeout(f"{named} did not end within {timeout:g} s; what runs goes on")


def _by_events(
    any_job: Awaited, left: _Waiting, ends: float | None, arrivals: Callable[[], Sequence[Awaited]]
) -> Stream[Ended]:
    """The jobs that end, until none is left, or until reads alone must find it.

    That is so for a caller who may not read events, while no stream can be opened, and when less time is left than a
    stream may be silent.
    """
    stream = resumed(Request("GET", any_job.events_path), any_job.api.url)
    reply = None
    while left:
        at = yield from now()
        if ends is not None and ends - at < SILENT_SECONDS:
            return
        try:
            step: Step | Emit[object] = stream.send(reply)
        except (StopIteration, Forbidden):
            return
        except ClusterraError as error:
            if is_transient(error):
                return
            raise
        if not isinstance(step, Emit):
            reply = yield step if ends is None else _bounded(step, ends - at)
            continue
        reply = None
        left |= {job.job_id: (job, _Reads(at)) for job in arrivals()}
        for job, reads in tuple(left.values()):
            change = change_in(step.value, job.job_id)
            if change == "nothing" and at < reads.due:
                continue
            record = yield from _read(job, reads, READS_AFTER_END if change == "end" else 1, ends)
            if record is not None:
                del left[job.job_id]
                yield Emit((job.job_id, record))


def _by_reads(left: _Waiting, ends: float | None, arrivals: Callable[[], Sequence[Awaited]]) -> Stream[Ended]:
    """The jobs that end, until none is left or the time is over."""
    began = yield from now()
    for _, reads in left.values():
        reads.due, reads.interval = min(reads.due, began), SHORT_INTERVAL_SECONDS
    while True:
        at = yield from now()
        left |= {job.job_id: (job, _Reads(at, SHORT_INTERVAL_SECONDS)) for job in arrivals()}
        for job, reads in tuple(left.values()):
            at = yield from now()
            if ends is not None and at >= ends + LAST_LOOK_SECONDS:
                break
            if reads.due <= at or (ends is not None and at >= ends):
                record = yield from _read(job, reads, 1, ends)
                if record is not None:
                    del left[job.job_id]
                    yield Emit((job.job_id, record))
        at = yield from now()
        if not left or (ends is not None and at >= ends):
            return
        due = min(reads.due for _, reads in left.values())
        yield from pause(max(0.0, (due if ends is None else min(due, ends)) - at))


def change_in(event: object, job_id: str) -> Literal["end", "change", "nothing"]:
    """What an event says of a job: its end, that it or a task of it may have changed, or nothing."""
    if not isinstance(event, ServerSentEvent):
        return "nothing"
    if event.event == "reset":
        return "change"
    try:
        fact = json.loads(event.data)["data"]
        named, kind = fact.get("job_id"), fact.get("kind")
    except (ValueError, TypeError, KeyError, AttributeError):
        return "nothing"
    if named == job_id:
        return "end" if kind in END_KINDS else "change"
    return "change" if isinstance(named, str) and named.partition("_")[0] == job_id else "nothing"


def _read(job: Awaited, reads: _Reads, times: int, ends: float | None) -> Steps[JobRecord | None]:
    """The record of a job that has ended; None for one that has not, or that nobody knows of now.

    It is read several times, because the record may follow the event of an end a moment later. Raises the errors that
    do not pass.
    """
    for attempt in range(times):
        if attempt:
            yield from pause(AFTER_END_SECONDS)
        answer_seconds = None
        if ends is not None:
            answer_seconds = max(ends - (yield from now()), LAST_LOOK_SECONDS)
        request = Request("GET", job.path, deadline_seconds=0.0, answer_seconds=answer_seconds)
        try:
            record = yield from job.api.read(JobRecord, request)
        except ClusterraError as error:
            if not is_transient(error):
                raise
        else:
            if job.over(record):
                return record
            if has_ended(record):
                break  # an event, or a later read, has the rest
    reads.done((yield from now()))
    return None


def _bounded(step: Step, left: float) -> Step:
    """A step that does not outlast the caller's time."""
    match step:
        case Pause():
            return replace(step, seconds=min(step.seconds, left))
        case Open():
            return Open(replace(step.request, answer_seconds=min(SILENCE_SECONDS, left)))
    return step
