"""The remaining time of jobs and workers: a certain number of seconds, or a distribution over a fixed time grid."""

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
"""The edges of the time grid's cells, in seconds from now: fine at first, coarse over days."""
_CELLS = tuple(pairwise(EDGES))
_WIDTHS = tuple(end - begin for begin, end in _CELLS)
MIDDLES = tuple((begin + end) / 2 for begin, end in _CELLS)
"""The middle of each cell, in seconds from now. The chance there is used for the whole cell."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """How long a job, or the last job of a worker, still runs."""

    mean_seconds: float
    ended: tuple[float, ...] | None = None
    """By cell, the chance that it has ended by then. None: it certainly ends after `mean_seconds`."""
    seconds: tuple[float, ...] | None = None
    """By cell, the expected seconds of the cell in which it runs. None as above."""

    def beyond(self, other: "Remaining") -> float:
        """The expected seconds by which this outlasts the other."""
        if self.seconds is None and other.ended is None:
            longer = self.mean_seconds - other.mean_seconds
            return longer if longer > 0.0 else 0.0
        return sumprod(other.chances, self.cells)

    @property
    def chances(self) -> tuple[float, ...]:
        """`ended`, computed where the end is certain."""
        if self.ended is not None:
            return self.ended
        return tuple(1.0 - share for share in _shares(self.mean_seconds))

    @property
    def cells(self) -> tuple[float, ...]:
        """`seconds`, computed where the end is certain."""
        return self.seconds if self.seconds is not None else tuple(map(mul, _shares(self.mean_seconds), _WIDTHS))


OVER = Remaining(0.0)
"""Nothing runs."""


def certain(seconds: float) -> Remaining:
    """What ends in exactly `seconds`."""
    return Remaining(seconds)


def expected(survival: Sequence[float]) -> Remaining:
    """From the chances, at the middle of each cell, that it still runs."""
    seconds = tuple(map(mul, survival, _WIDTHS))
    return Remaining(sum(seconds), tuple([1.0 - chance for chance in survival]), seconds)


def last(several: Iterable[Remaining]) -> Remaining:
    """The time until the last of several has ended; they are taken to end independently."""
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
    """By cell, the share of the cell that a duration of this length fills."""
    return tuple(min(1.0, max(0.0, (seconds - begin) / (end - begin))) for begin, end in _CELLS)
