"""Provisioning latency: how long workers of a shape take from their start until they register with Slurm.

It decides how long an unregistered worker is waited for. Workers that were given up are censored observations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Annotated, Self

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.registry import ScalingPolicy
from pydantic import Field

from clusterra_scaler.planner.estimates.kaplan_meier import survival

MAX_REMEMBERED = 200
"""Maximum number of latencies that are remembered of each shape, and of ages at which workers were given up."""
MARGIN = 1.5
"""Factor on the 99th percentile: a boot may take that much longer than nearly all before it."""
MIN_REGISTERED = 20
"""Minimum number of registered workers before an earlier scaler's estimate is dropped."""
GIVEN_UP_IN_A_ROW = 3
"""Each time this many workers in a row were given up, the time limit doubles: it may be too short."""
MAX_PATIENCE = 4
"""The greatest factor by which those doublings lengthen the time limit."""

_P99 = 0.99
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ShapeLatency:
    """The latencies of one shape, in seconds."""

    registered: Annotated[tuple[float, ...], Field(alias="ended")] = ()
    """Latencies of workers that registered."""
    given_up: tuple[float, ...] = ()
    """Ages at which unregistered workers were given up."""
    given_up_in_a_row: int = 0
    p99_seconds: float | None = None
    """None before the first worker has registered."""

    def with_registered(self, seconds: float) -> Self:
        """A copy with one more worker that registered."""
        registered = (*self.registered, seconds)[-MAX_REMEMBERED:]
        return replace(self, registered=registered, given_up_in_a_row=0, p99_seconds=p99(registered, self.given_up))

    def with_given_up(self, seconds: float) -> Self:
        """A copy with one more worker that was given up."""
        given_up = (*self.given_up, seconds)[-MAX_REMEMBERED:]
        in_a_row = self.given_up_in_a_row + 1
        return replace(self, given_up=given_up, given_up_in_a_row=in_a_row, p99_seconds=p99(self.registered, given_up))


_NEVER_OBSERVED = ShapeLatency()


@dataclass(frozen=True, slots=True)
class ProvisioningLatency:
    """The provisioning latencies of one cluster, by shape."""

    recorded: Mapping[ShapeName, float] = field(default_factory=dict)
    """The 99th percentiles that an earlier scaler recorded."""
    times: Mapping[ShapeName, ShapeLatency] = field(default_factory=dict)

    def with_registered(self, shape: ShapeName, seconds: float) -> Self:
        """A copy with one more worker that registered."""
        return replace(self, times={**self.times, shape: self._of(shape).with_registered(seconds)})

    def with_given_up(self, shape: ShapeName, seconds: float) -> Self:
        """A copy with one more worker that was given up."""
        return replace(self, times={**self.times, shape: self._of(shape).with_given_up(seconds)})

    def p99_seconds(self) -> dict[ShapeName, float]:
        """The 99th percentile of each shape that has one, for the record."""
        learned = {shape: self._p99(shape) for shape in self.times.keys() | self.recorded.keys()}
        return {shape: seconds for shape, seconds in sorted(learned.items()) if seconds is not None}

    def typical_seconds(self, shape: ShapeName) -> float | None:
        """The median latency of a shape.

        Before the first observation of the shape: an earlier scaler's 99th percentile, else the median over all shapes,
        else the median of what an earlier scaler recorded of them, else None.
        """
        times = self._of(shape)
        if not times.registered and shape in self.recorded:
            return self.recorded[shape]
        if times.registered:
            return _median(times.registered, times.given_up)
        of_all = _median(
            tuple(chain.from_iterable(each.registered for each in self.times.values())),
            tuple(chain.from_iterable(each.given_up for each in self.times.values())),
        )
        return _median(tuple(self.recorded.values()), ()) if of_all is None else of_all

    def limit_seconds(self, shape: ShapeName, policy: ScalingPolicy) -> float:
        """The age at which an unregistered worker is given up: the policy's limit, or more where boots are slow."""
        doublings = self._of(shape).given_up_in_a_row // GIVEN_UP_IN_A_ROW
        patience = min(2.0**doublings, MAX_PATIENCE)
        return max(policy.boot_timeout_seconds * patience, self.padded_p99_seconds(shape))

    def padded_p99_seconds(self, shape: ShapeName) -> float:
        """The time within which nearly every worker registers, margin included; 0 before any observation."""
        return MARGIN * (self._p99(shape) or 0.0)

    def given_up_in_a_row(self, shape: ShapeName) -> int:
        """How many workers were given up since the last one that registered."""
        return self._of(shape).given_up_in_a_row

    def _of(self, shape: ShapeName) -> ShapeLatency:
        return self.times.get(shape, _NEVER_OBSERVED)

    def _p99(self, shape: ShapeName) -> float | None:
        times = self._of(shape)
        recorded = self.recorded.get(shape)
        if recorded is None or len(times.registered) >= MIN_REGISTERED:
            return times.p99_seconds
        return max(recorded, times.p99_seconds or 0.0)


# A decision may ask for many shapes, and the next decision asks for the same.
@lru_cache(maxsize=64)
def _median(registered: tuple[float, ...], given_up: tuple[float, ...]) -> float | None:
    return quantile(0.5, registered, given_up)


def p99(registered: Iterable[float], given_up: Iterable[float]) -> float | None:
    """The time within which 99 % of workers register, see `quantile`."""
    return quantile(_P99, registered, given_up)


def quantile(share: float, registered: Iterable[float], given_up: Iterable[float]) -> float | None:
    """The time within which this share of workers registers, by the Kaplan-Meier estimate.

    A worker that was given up is a censored observation, so it never lowers the estimate. Never more than the longest
    latency of a registered worker; None if no worker registered.
    """
    longest = None
    for seconds, longer in survival(registered, given_up):
        longest = seconds
        if longer <= 1 - share + _ROUNDING:
            break
    return longest
