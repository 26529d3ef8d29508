"""Waits until a job has ended: by the stream of the cluster's events, and by reading the job from time to time.

Events tell an end at once. The reads are for what no event tells, such as an end while the stream was broken; their
intervals grow. A gateway that does not answer is waited for: nobody knows then whether the job has ended.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Literal

from clusterra.errors import ClusterraError, Forbidden, WaitTimeout
from clusterra.exchange import Emit, Open, Pause, Request, Step, Steps, now, pause
from clusterra.models import JobRecord
from clusterra.operations.api import Api
from clusterra.retrying import passes
from clusterra.sse import ServerSentEvent
from clusterra.streams import SILENCE_SECONDS, resumed

LIVE_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
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


def wait(job: Awaited, timeout: float | None) -> Steps[JobRecord]:
    """The record of a job that has ended. `timeout` is in seconds, None for no limit.

    Raises WaitTimeout, and the errors of `clusterra.errors` that do not pass, such as SignInNeeded and NotFound.
    """
    began = yield from now()
    ends = None if timeout is None else began + timeout
    record = yield from _by_events(job, ends)
    if record is None:
        record = yield from _by_reads(job, ends)
    if record is None:
        raise WaitTimeout(f"job {job.job_id} has not ended within {timeout:g} s; it goes on")
    return record


def _by_events(job: Awaited, ends: float | None) -> Steps[JobRecord | None]:
    """The record of the job when it has ended; None where reads alone must tell it.

    That is so for a caller who may not read events, and when less time is left than a stream may be silent.
    """
    reads, reply = _Reads((yield from now())), None
    stream = resumed(Request("GET", job.events_path), job.api.url)
    while True:
        at = yield from now()
        if ends is not None and ends - at < SILENT_SECONDS:
            return None
        try:
            step: Step | Emit[object] = stream.send(reply)
        except (StopIteration, Forbidden):
            return None
        if not isinstance(step, Emit):
            reply = yield step if ends is None else _bounded(step, ends - at)
            continue
        reply = None
        told = tells(step.value, job.job_id)
        # The record may follow the event of an end a moment later.
        for _ in range(READS_AFTER_END if told == "end" else 1 if told == "change" or at >= reads.due else 0):
            record = yield from _read(job)
            reads.done(at)
            if record is not None and has_ended(record):
                return record
            if told == "end":
                yield from pause(AFTER_END_SECONDS)


def tells(event: object, job_id: str) -> Literal["end", "change", "nothing"]:
    """What an event tells of a job: its end, that it or a task of it may have changed, or nothing."""
    if not isinstance(event, ServerSentEvent):
        return "nothing"
    if event.event == "reset":
        return "change"
    try:
        told = json.loads(event.data)["data"]
        named, kind = told.get("job_id"), told.get("kind")
    except (ValueError, TypeError, KeyError, AttributeError):
        return "nothing"
    if named == job_id:
        return "end" if kind in END_KINDS else "change"
    return "change" if isinstance(named, str) and named.partition("_")[0] == job_id else "nothing"


def _by_reads(job: Awaited, ends: float | None) -> Steps[JobRecord | None]:
    """The record of the job when it has ended; None when the time is over."""
    reads = _Reads((yield from now()), SHORT_INTERVAL_SECONDS)
    while True:
        record = yield from _read(job)
        if record is not None and has_ended(record):
            return record
        at = yield from now()
        if ends is not None and at >= ends:
            return None
        reads.done(at)
        yield from pause((reads.due if ends is None else min(reads.due, ends)) - at)


def _read(job: Awaited) -> Steps[JobRecord | None]:
    """The job's record; None where nobody answers now. Raises the errors that do not pass."""
    try:
        return (yield from job.api.read(JobRecord, Request("GET", job.path, deadline_seconds=0.0)))
    except ClusterraError as error:
        if passes(error):
            return None
        raise


def _bounded(step: Step, left: float) -> Step:
    """A step that does not outlast the caller's time."""
    match step:
        case Pause():
            return replace(step, seconds=min(step.seconds, left))
        case Open():
            return Open(replace(step.request, answer_seconds=min(SILENCE_SECONDS, left)))
    return step
