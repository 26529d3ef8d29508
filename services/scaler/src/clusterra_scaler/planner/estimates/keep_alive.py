"""How long an idle worker is kept alive: the time of least expected cost, given the idle gaps observed so far.

Keeping an idle worker costs its price per second. Releasing it too early, a miss, costs a boot, which is paid, and the
wait for it. This is ski rental: A. R. Karlin, M. S. Manasse, L. Rudolph, D. D. Sleator, Competitive Snoopy Caching,
Algorithmica 3 (1988). Without knowledge, a worker is kept until that has cost as much as a miss, which costs at most
twice the optimum. Once the distribution of the gaps is known, the best time for it is chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.estimates.kaplan_meier import survival

WAITING_USD_PER_HOUR = 10.0
"""The cost of waiting for a boot: well below the cost of a person's time, because most jobs wait unattended. It is the
same for all shapes, so cheap workers are kept for longer than dear ones."""
MAX_GAPS = 200
"""Maximum number of gaps that are remembered of each shape, the latest ones."""
MIN_GAPS = 20
"""Minimum number of observed gaps before the estimate is used."""
MARGIN = 1.1
"""Factor on the estimated time: the next gap may be a little longer than those before it."""

_HOUR = 3600.0


class Gap(NamedTuple):
    """How long a worker was idle."""

    seconds: float
    ended: bool
    """Whether there was work for it then; otherwise the observation is censored."""


class KeepAliveCosts(NamedTuple):
    """The two costs of ski rental: keeping a worker, and a miss."""

    usd_per_second: float
    miss_usd: float
    """The cost of having released a worker when there is work for it."""

    @classmethod
    def of(cls, usd_per_hour: float, boot_seconds: float) -> Self:
        """The costs for a shape at this price. A second of a boot is paid as any other second is."""
        return cls(usd_per_hour / _HOUR, boot_seconds * (usd_per_hour + WAITING_USD_PER_HOUR) / _HOUR)

    def break_even_seconds(self, at_most: float) -> float:
        """The time after which keeping has cost as much as a miss, at most `at_most`."""
        return min(self.miss_usd / self.usd_per_second, at_most) if self.usd_per_second else at_most


# Many workers of a shape may fall idle at the same moment.
@lru_cache(maxsize=64)
def cheapest_seconds(gaps: tuple[Gap, ...], costs: KeepAliveCosts, at_most: float) -> float:
    """The keep-alive time within [0, at_most] of least expected cost, if future gaps are distributed as these are."""
    best, least_usd = 0.0, costs.miss_usd
    idle_seconds, longer_before, before = 0.0, 1.0, 0.0
    ended = [gap.seconds for gap in gaps if gap.ended]
    for seconds, longer in survival(ended, [gap.seconds for gap in gaps if not gap.ended]):
        idle_seconds += longer_before * (seconds - before)
        if seconds > at_most:
            break
        usd = idle_seconds * costs.usd_per_second + longer * costs.miss_usd
        if usd < least_usd:
            best, least_usd = seconds, usd
        longer_before, before = longer, seconds
    return min(MARGIN * best, at_most)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The keep-alive times of one cluster, by shape."""

    learned: Mapping[ShapeName, float] = field(default_factory=dict)
    """The seconds that were last chosen from an estimate, perhaps by an earlier scaler."""
    gaps: Mapping[ShapeName, tuple[Gap, ...]] = field(default_factory=dict)

    def with_gap(self, shape: ShapeName, gap: Gap) -> Self:
        """A copy with one more gap of a worker of this shape."""
        return replace(self, gaps={**self.gaps, shape: (*self.gaps.get(shape, ()), gap)[-MAX_GAPS:]})

    def choose(self, shape: ShapeName, costs: KeepAliveCosts, at_most: float) -> tuple[Self, float]:
        """Choose how many seconds a worker is kept that falls idle now, and remember the choice.

        An earlier scaler's choice is used until enough gaps were observed.
        """
        gaps = self.gaps.get(shape, ())
        if len(gaps) >= MIN_GAPS:
            seconds = cheapest_seconds(gaps, costs, at_most)
            return replace(self, learned={**self.learned, shape: seconds}), seconds
        if shape in self.learned:
            return self, min(self.learned[shape], at_most)
        return self, costs.break_even_seconds(at_most)
