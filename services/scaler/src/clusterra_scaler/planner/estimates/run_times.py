"""Estimators of jobs' run times: the wall limit, an oracle, or, in `run_time_model`, what earlier jobs taught."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain

DAY = 86400.0
LIMIT_OF_UNLIMITED_SECONDS = DAY
"""The run time that is assumed for a job without a wall limit, where nothing but limits is known."""
OVERDUE = 0.1
"""A job that should have ended is assumed to run for another tenth of its age."""


class Traits(NamedTuple):
    """What is known of a job before it runs. Resources are per node."""

    user: str
    limit_seconds: float | None
    cpus: int
    memory_gib: float


class RunTimes(Protocol):
    """Estimates how long jobs run, and learns from jobs that begin and end. All times in seconds of one clock."""

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """Record that the job starts."""

    def end(self, job_id: str, now: float) -> None:
        """Record that the job ended by itself."""

    def abandon(self, job_id: str) -> None:
        """Record that the job was stopped for a reason unrelated to its run time, such as the loss of its worker."""

    def advance(self, now: float) -> None:
        """Record that time has passed."""

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """How long the job still runs after `age` seconds of running; `age` is 0 before its start."""


class _NoLearning:
    """Ignores all jobs that begin and end."""

    def begin(self, job_id: str, traits: Traits, now: float) -> None:
        """See RunTimes."""

    def end(self, job_id: str, now: float) -> None:
        """See RunTimes."""

    def abandon(self, job_id: str) -> None:
        """See RunTimes."""

    def advance(self, now: float) -> None:
        """See RunTimes."""


class WallLimitRunTimes(_NoLearning):
    """Takes every job to run until its wall limit."""

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes."""
        return _rest(traits.limit_seconds or LIMIT_OF_UNLIMITED_SECONDS, age)


class KnownRunTimes(_NoLearning):
    """An oracle of run times in seconds, by job: it shows what learning could gain at most."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def remaining(self, job_id: str, traits: Traits, age: float) -> Remaining:
        """See RunTimes. Raises KeyError for an unknown job."""
        return _rest(self._seconds[job_id], age)


def _rest(seconds: float, age: float) -> Remaining:
    return certain(seconds - age if seconds > age else OVERDUE * age)
