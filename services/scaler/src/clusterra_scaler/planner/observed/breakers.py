"""Breakers: a shape that cannot be had now is not bought, and is tried again with growing pauses. Pure.

    closed -- it fails --> open -- the pause is over --> half-open -- a worker starts --> closed
                             ^------- it fails again: twice the pause -------|

What a scaler can choose is the shape. Zone and market are chosen behind it, by Karpenter within a shape's NodePool,
which knows what each of them refused; so a shape fails when all of these do, and a breaker is of a shape.

Half-open, one job's worth of workers is tried, and only where a job asks for it (see `failover`). A breaker that closes
is remembered for as long as the longest pause: one that opens again within that time goes on with the next pause, so
that capacity which comes and goes is not run after.
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
class Failure:
    """That workers of a shape do not start."""

    why: str
    """In words that name the shape."""
    message: str = ""
    """What the edge says of it."""


class Breaker(Wire):
    """Of one shape, in the record: a takeover neither forgets a pause nor cuts it short."""

    shape: ShapeName
    why: str
    message: str
    opened_at: Moment
    failed_at: Moment
    """When it was last seen to fail: at the opening, or when it had been tried again."""
    failures: Annotated[int, Field(ge=1)]
    """How often it has failed without a longer time of success between."""
    closed_at: Moment | None = None

    @property
    def open(self) -> bool:
        """Whether it is not closed: open or half-open."""
        return self.closed_at is None

    @property
    def probe_at(self) -> datetime:
        """From when on the shape may be tried again."""
        doublings = min(self.failures - 1, 10)
        return self.failed_at + timedelta(seconds=min(FIRST_PAUSE_SECONDS * 2**doublings, LONGEST_PAUSE_SECONDS))

    def pauses(self, now: datetime) -> bool:
        """Whether it is open, and the shape not to be tried yet."""
        return self.open and now < self.probe_at

    @property
    def words(self) -> str:
        """Why nothing is bought of the shape."""
        return f"{self.why} since {self.opened_at:%H:%M} UTC"


def breakers_after(
    breakers: Iterable[Breaker],
    failures: Mapping[ShapeName, Failure],
    started: Collection[ShapeName],
    shapes: Iterable[ShapeName],
    now: datetime,
) -> tuple[Breaker, ...]:
    """With what is seen now: shapes that fail, and those of which a worker has started since they failed.

    There is at most one for each of the `shapes`. The same again changes nothing.
    """
    known = {breaker.shape: breaker for breaker in breakers}
    found = (_after(known.get(shape), shape, failures.get(shape), shape in started, now) for shape in shapes)
    return tuple(breaker for breaker in found if breaker is not None)


def _after(
    before: Breaker | None, shape: ShapeName, failure: Failure | None, started: bool, now: datetime
) -> Breaker | None:
    if failure is not None and (before is None or not before.pauses(now)):
        return Breaker(
            shape=shape,
            why=failure.why,
            message=failure.message[:_MESSAGE_CHARACTERS],
            opened_at=before.opened_at if before is not None and before.open else now,
            failed_at=now,
            failures=before.failures + 1 if before is not None else 1,
        )
    if before is None or failure is not None:
        return before
    if before.closed_at is None:
        return before.model_copy(update={"closed_at": now}) if started else before
    return before if (now - before.closed_at).total_seconds() < LONGEST_PAUSE_SECONDS else None
