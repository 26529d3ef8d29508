"""What is expected of a job's run time: its wall limit, what is known for certain, or what runs before it taught."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain

DAY = 86400.0
LIMIT_OF_UNLIMITED_SECONDS = DAY
"""What a job without a wall limit is taken to run where nothing but limits is known."""
OVERDUE = 0.1
"""A job that should have ended is given another tenth of its age."""


class Traits(NamedTuple):
    """What is known of a job before it runs, per node."""

    user: str
    limit_seconds: float | None
    cpus: int
    memory_gib: float


class RunTimes(Protocol):
    """Answers how long jobs run, and is told of those that begin and end. All times in seconds of one clock."""

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """The job starts."""

    def end(self, job_id: str, now: float) -> None:
        """It ended by itself."""

    def abandon(self, job_id: str) -> None:
        """It was stopped by something that says nothing of its run time, such as the loss of its worker."""

    def advance(self, now: float) -> None:
        """Time passed."""

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """How long the job still runs that is running for `age` seconds, 0 before its start."""


class _Untaught:
    """Of no use to learn from."""

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """See RunTimes."""

    def end(self, job_id: str, now: float) -> None:
        """See RunTimes."""

    def abandon(self, job_id: str) -> None:
        """See RunTimes."""

    def advance(self, now: float) -> None:
        """See RunTimes."""


class WallLimits(_Untaught):
    """Every job runs until its wall limit."""

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes."""
        return _rest(traits.limit_seconds or LIMIT_OF_UNLIMITED_SECONDS, age)


class Known(_Untaught):
    """Run times in seconds by job, as an oracle has them: what learning could gain at most."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes. Raises KeyError for a job of which nothing is known."""
        return _rest(self._seconds[job_id], age)


def _rest(seconds: float, age: float) -> Remaining:
    return certain(seconds - age if seconds > age else OVERDUE * age)
