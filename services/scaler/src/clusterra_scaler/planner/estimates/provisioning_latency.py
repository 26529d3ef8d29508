"""How long workers of a shape take from their start until Slurm has them, and so for how long one is waited for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.registry import ScalingPolicy

from clusterra_scaler.planner.estimates.kaplan_meier import survival

REMEMBERED = 200
"""Of each shape the last boots that ended, and as many that did not."""
MARGIN = 1.5
"""A boot may take this much longer than nearly all before it."""
RELEARNED = 20
"""So many boots are seen before what an earlier scaler had learned counts no more."""
GIVEN_UP_IN_A_ROW = 3
PATIENCE_AT_MOST = 4
"""Where nothing boots in time, time may be what is missing: every three that were given up double it, up to this."""

_P99 = 0.99
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ShapeLatency:
    """Of one shape, in seconds."""

    ended: tuple[float, ...] = ()
    """Of workers that Slurm has got."""
    given_up: tuple[float, ...] = ()
    """How old those were that had not registered when they went."""
    given_up_in_a_row: int = 0
    p99_seconds: float | None = None
    """None before the first boot has ended."""

    def with_ended(self, seconds: float) -> Self:
        """With one more that Slurm has got."""
        ended = (*self.ended, seconds)[-REMEMBERED:]
        return replace(self, ended=ended, given_up_in_a_row=0, p99_seconds=p99(ended, self.given_up))

    def with_given_up(self, seconds: float) -> Self:
        """With one more that never registered."""
        given_up = (*self.given_up, seconds)[-REMEMBERED:]
        in_a_row = self.given_up_in_a_row + 1
        return replace(self, given_up=given_up, given_up_in_a_row=in_a_row, p99_seconds=p99(self.ended, given_up))


_NEVER_SEEN = ShapeLatency()


@dataclass(frozen=True, slots=True)
class ProvisioningLatency:
    """Of one cluster."""

    recorded: Mapping[ShapeName, float] = field(default_factory=dict)
    """The p99 that an earlier scaler had learned."""
    times: Mapping[ShapeName, ShapeLatency] = field(default_factory=dict)

    def with_ended(self, shape: ShapeName, seconds: float) -> Self:
        """With a worker that Slurm has got."""
        return replace(self, times={**self.times, shape: self._of(shape).with_ended(seconds)})

    def with_given_up(self, shape: ShapeName, seconds: float) -> Self:
        """With a worker that never registered."""
        return replace(self, times={**self.times, shape: self._of(shape).with_given_up(seconds)})

    def p99_seconds(self) -> dict[ShapeName, float]:
        """What has been learned of each shape, for the record."""
        learned = {shape: self._p99(shape) for shape in self.times.keys() | self.recorded.keys()}
        return {shape: seconds for shape, seconds in sorted(learned.items()) if seconds is not None}

    def typical_seconds(self, shape: ShapeName) -> float | None:
        """How long half of the boots of a shape take. Before one was seen: the p99 that an earlier scaler knew, else
        the median over all shapes; None before any.
        """
        times = self._of(shape)
        if not times.ended and shape in self.recorded:
            return self.recorded[shape]
        counted = [times] if times.ended else list(self.times.values())
        ended = chain.from_iterable(each.ended for each in counted)
        given_up = chain.from_iterable(each.given_up for each in counted)
        return quantile(0.5, ended, given_up)

    def limit_seconds(self, shape: ShapeName, policy: ScalingPolicy) -> float:
        """How old a worker that has not registered may get: what the policy says, or more where boots are slow."""
        doublings = self._of(shape).given_up_in_a_row // GIVEN_UP_IN_A_ROW
        patience = min(2.0**doublings, PATIENCE_AT_MOST)
        return max(policy.boot_timeout_seconds * patience, self.usual_seconds(shape))

    def usual_seconds(self, shape: ShapeName) -> float:
        """How long a boot may take by what is known; 0 where nothing is."""
        return MARGIN * (self._p99(shape) or 0.0)

    def given_up_in_a_row(self, shape: ShapeName) -> int:
        """How many have gone unregistered since the last one that Slurm has got."""
        return self._of(shape).given_up_in_a_row

    def _of(self, shape: ShapeName) -> ShapeLatency:
        return self.times.get(shape, _NEVER_SEEN)

    def _p99(self, shape: ShapeName) -> float | None:
        times = self._of(shape)
        recorded = self.recorded.get(shape)
        if recorded is None or len(times.ended) >= RELEARNED:
            return times.p99_seconds
        return max(recorded, times.p99_seconds or 0.0)


def p99(ended: Iterable[float], given_up: Iterable[float]) -> float | None:
    """The time after which 99 % of boots have ended, see `quantile`."""
    return quantile(_P99, ended, given_up)


def quantile(share: float, ended: Iterable[float], given_up: Iterable[float]) -> float | None:
    """The time after which this share of boots has ended, as Kaplan and Meier estimate it: one that was given up is
    known to take longer than that, so it never lowers the estimate. Never more than the longest that ended; None if
    none did.
    """
    longest = None
    for seconds, longer in survival(ended, given_up):
        longest = seconds
        if longer <= 1 - share + _ROUNDING:
            break
    return longest
