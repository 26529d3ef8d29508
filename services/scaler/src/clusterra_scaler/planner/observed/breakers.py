"""Circuit breakers: what fails is not tried for a while, and is tried again after growing pauses. Pure.

This module has those of shapes: a shape that is unavailable is not bought. `request_breakers` has those of jobs.

    closed -- the shape fails --> open -- the pause is over --> half-open -- a worker registers --> closed
                                    ^-------- it fails again: the pause doubles --------|

A breaker belongs to a shape because a shape is what the scaler can choose. Behind it Karpenter chooses zone and market
within the shape's NodePool, and remembers what each of them refused. So a shape fails when all of them do.

Half-open, workers for one job are tried, and only when a job needs them (see `failover`). A closed breaker is kept for
the longest pause: if it opens again within that time, it continues with the next longer pause, so that the scaler does
not chase capacity that comes and goes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from clusterra_contracts.identity import Moment, ShapeName, Wire
from pydantic import Field

FIRST_PAUSE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 1800.0

_MESSAGE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """Why workers of a shape do not start."""

    why: str
    """A phrase that names the shape, such as `no capacity for compute-xs`."""
    message: str = ""
    """The edge's own message, or Slurm's."""
    wasted: bool = False
    """Whether the workers start, and so cost, and are of no use."""


class CircuitBreaker(Wire):
    """What all circuit breakers have. They are stored, so that a takeover neither loses a pause nor cuts it short."""

    opened_at: Moment
    failed_at: Moment
    """When the last failure was: the one that opened it, or that of a later trial."""
    failures: Annotated[int, Field(ge=1)]
    """Number of failures without a longer time of success between them."""
    closed_at: Moment | None = None

    @property
    def tripped(self) -> bool:
        """Whether the breaker is open or half-open."""
        return self.closed_at is None

    @property
    def probe_at(self) -> datetime:
        """When an open breaker becomes half-open."""
        doublings = min(self.failures - 1, 10)
        return self.failed_at + timedelta(seconds=min(FIRST_PAUSE_SECONDS * 2**doublings, LONGEST_PAUSE_SECONDS))

    def is_open(self, now: datetime) -> bool:
        """Whether the breaker is open, and not half-open yet."""
        return self.tripped and now < self.probe_at


class ShapeBreaker(CircuitBreaker):
    """The circuit breaker of one shape."""

    shape: ShapeName
    why: str
    message: str
    wasted: bool = False
    """Whether its workers start, and so cost, and are of no use. Then nothing is ordered during a pause, not even for
    jobs that fit no other shape."""

    @property
    def description(self) -> str:
        """Why the shape is not bought, for a person. A drain is explained by Slurm's own reason alone."""
        why = f"{self.why} ({self.message})" if self.wasted else self.why
        return f"{why} since {self.opened_at:%H:%M} UTC"


def breakers_after(
    breakers: Iterable[ShapeBreaker],
    failures: Mapping[ShapeName, LaunchFailure],
    registered: Collection[ShapeName],
    shapes: Iterable[ShapeName],
    now: datetime,
) -> tuple[ShapeBreaker, ...]:
    """Return the breakers after an observation: a shape in `failures` opens, and one in `registered` closes.

    The result has at most one breaker for each of the `shapes`. Repeating the same observation changes nothing.
    """
    known = {breaker.shape: breaker for breaker in breakers}
    found = (_after(known.get(shape), shape, failures.get(shape), shape in registered, now) for shape in shapes)
    return tuple(breaker for breaker in found if breaker is not None)


def _after(
    before: ShapeBreaker | None, shape: ShapeName, failure: LaunchFailure | None, registered: bool, now: datetime
) -> ShapeBreaker | None:
    if failure is not None and (before is None or not before.is_open(now)):
        return ShapeBreaker(
            shape=shape,
            why=failure.why,
            message=failure.message[:_MESSAGE_CHARACTERS],
            opened_at=before.opened_at if before is not None and before.tripped else now,
            failed_at=now,
            failures=before.failures + 1 if before is not None else 1,
            wasted=failure.wasted,
        )
    if before is None or failure is not None:
        return before
    if before.closed_at is None:
        return before.model_copy(update={"closed_at": now}) if registered else before
    return before if (now - before.closed_at).total_seconds() < LONGEST_PAUSE_SECONDS else None
