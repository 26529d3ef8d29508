"""For how long an idle worker is kept: the time of least expected cost, by how soon such workers were used again.

Keeping costs the worker's price for as long as it stands idle. Releasing it too early costs a boot, which is paid, and
the wait for it. This is ski rental: A. R. Karlin, M. S. Manasse, L. Rudolph, D. D. Sleator, Competitive Snoopy Caching,
Algorithmica 3 (1988). Who knows nothing keeps until that has cost as much as a miss, and so never pays more than twice
the least; who knows the distribution chooses the best time for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.estimates.kaplan_meier import survival

WAITING_USD_PER_HOUR = 10.0
"""What it is worth that nobody waits for a boot: well below what an hour of the person costs, for most jobs wait
unattended. Because it is the same for all shapes, cheap workers are kept for longer than dear ones."""
REMEMBERED = 200
"""So many gaps of each shape, the last ones."""
LEARNED_FROM = 20
"""So many gaps are seen before they are gone by."""
MARGIN = 1.1
"""The next gap may be a little longer than those before it."""

_HOUR = 3600.0


class Gap(NamedTuple):
    """For how long a worker was idle."""

    seconds: float
    ended: bool
    """Whether there was work for it then; otherwise nobody looked any longer."""


class Stakes(NamedTuple):
    """What keeping a worker costs, and what it costs to have released it when there is work."""

    usd_per_second: float
    miss_usd: float

    @classmethod
    def of(cls, usd_per_hour: float, boot_seconds: float) -> Self:
        """Of a shape at this price. A boot is paid as any other second is."""
        return cls(usd_per_hour / _HOUR, boot_seconds * (usd_per_hour + WAITING_USD_PER_HOUR) / _HOUR)

    def break_even_seconds(self, at_most: float) -> float:
        """When keeping has cost as much as a miss."""
        return min(self.miss_usd / self.usd_per_second, at_most) if self.usd_per_second else at_most


# Many workers of a shape may fall idle at the same moment.
@lru_cache(maxsize=64)
def best_seconds(gaps: tuple[Gap, ...], stakes: Stakes, at_most: float) -> float:
    """The time within [0, at_most] that costs least if gaps go on as these."""
    best, least_usd = 0.0, stakes.miss_usd
    idle_seconds, longer_before, before = 0.0, 1.0, 0.0
    ended = [gap.seconds for gap in gaps if gap.ended]
    for seconds, longer in survival(ended, [gap.seconds for gap in gaps if not gap.ended]):
        idle_seconds += longer_before * (seconds - before)
        if seconds > at_most:
            break
        usd = idle_seconds * stakes.usd_per_second + longer * stakes.miss_usd
        if usd < least_usd:
            best, least_usd = seconds, usd
        longer_before, before = longer, seconds
    return min(MARGIN * best, at_most)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Of one cluster."""

    learned: Mapping[ShapeName, float] = field(default_factory=dict)
    """The seconds last chosen by what was learned, maybe by an earlier scaler."""
    gaps: Mapping[ShapeName, tuple[Gap, ...]] = field(default_factory=dict)

    def with_gap(self, shape: ShapeName, gap: Gap) -> Self:
        """With one more of a worker of this shape."""
        return replace(self, gaps={**self.gaps, shape: (*self.gaps.get(shape, ()), gap)[-REMEMBERED:]})

    def choose(self, shape: ShapeName, stakes: Stakes, at_most: float) -> tuple[Self, float]:
        """For how many seconds a worker that falls idle now is kept. What was learned before counts until enough was
        seen.
        """
        gaps = self.gaps.get(shape, ())
        if len(gaps) >= LEARNED_FROM:
            seconds = best_seconds(gaps, stakes, at_most)
            return replace(self, learned={**self.learned, shape: seconds}), seconds
        if shape in self.learned:
            return self, min(self.learned[shape], at_most)
        return self, stakes.break_even_seconds(at_most)
