"""How long jobs and workers still run, as far as one can know."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sumprod
from operator import mul

_HOURS = (
    0, 1 / 12, 1 / 4, 1 / 2, 1, 2, 4, 6, 9, 12, 16, 20, 24, 30, 36, 48, 60, 72, 96, 120, 144, 168, 204, 240, 288, 336,
    408, 504, 720,
)  # fmt: skip
EDGES = tuple(hours * 3600.0 for hours in _HOURS)
"""Seconds from now at which the cells of time begin and end: fine soon, coarse in the days."""
_CELLS = tuple(pairwise(EDGES))
_WIDTHS = tuple(end - begin for begin, end in _CELLS)
MIDDLES = tuple((begin + end) / 2 for begin, end in _CELLS)
"""Seconds from now to the middle of each cell, where a chance is taken for the whole cell."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """How long a job, or the last job of a worker, still runs."""

    mean_seconds: float
    ended: tuple[float, ...] | None = None
    """For each cell the chance that it has ended by then. None: it certainly ends after mean_seconds."""
    seconds: tuple[float, ...] | None = None
    """For each cell how many seconds of it are expected to be run. None as above."""

    def beyond(self, other: "Remaining") -> float:
        """The expected seconds by which this outlasts the other."""
        if self.seconds is None and other.ended is None:
            longer = self.mean_seconds - other.mean_seconds
            return longer if longer > 0.0 else 0.0
        return sumprod(other.chances, self.cells)

    @property
    def chances(self) -> tuple[float, ...]:
        """`ended`, also of what is certain."""
        if self.ended is not None:
            return self.ended
        return tuple(1.0 - share for share in _shares(self.mean_seconds))

    @property
    def cells(self) -> tuple[float, ...]:
        """`seconds`, also of what is certain."""
        return self.seconds if self.seconds is not None else tuple(map(mul, _shares(self.mean_seconds), _WIDTHS))


OVER = Remaining(0.0)
"""Nothing runs."""


def certain(seconds: float) -> Remaining:
    """What ends in exactly so many seconds."""
    return Remaining(seconds)


def expected(left: Sequence[float]) -> Remaining:
    """From the chance, in the middle of each cell, that it still runs."""
    seconds = tuple(map(mul, left, _WIDTHS))
    return Remaining(sum(seconds), tuple([1.0 - chance for chance in left]), seconds)


def last(several: Iterable[Remaining]) -> Remaining:
    """The last of several, which are taken to end independently."""
    ended: tuple[float, ...] | None = None
    until = OVER
    for each in several:
        if ended is None and each.ended is None:
            until = each if each.mean_seconds > until.mean_seconds else until
        elif ended is None:
            ended = each.chances if until is OVER else tuple(map(mul, until.chances, each.chances))
        else:
            ended = tuple(map(mul, ended, each.chances))
    if ended is None:
        return until
    seconds = tuple(map(mul, [1.0 - chance for chance in ended], _WIDTHS))
    return Remaining(sum(seconds), ended, seconds)


def _shares(seconds: float) -> tuple[float, ...]:
    """The share of each cell that something of this length fills."""
    return tuple(min(1.0, max(0.0, (seconds - begin) / (end - begin))) for begin, end in _CELLS)
