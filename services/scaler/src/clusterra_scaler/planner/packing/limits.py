"""Limits on what may be bought in all: workers, workers by shape, and USD per hour."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from clusterra_scaler.planner.packing.items import Offering

_HOUR = 3600.0
ROUNDING_USD = 1e-9
"""Tolerance of comparisons between sums of prices."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much more may be bought. None means unlimited."""

    workers: int | None = None
    of_shape: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Workers by shape; a shape that is missing here has no limit of its own."""
    usd_per_hour: float | None = None

    def allow(self, bought: Sequence[Offering]) -> bool:
        """Whether all of these workers may be bought together."""
        if self.workers is not None and len(bought) > self.workers:
            return False
        if self.usd_per_hour is not None and _usd_per_hour(bought) > self.usd_per_hour + ROUNDING_USD:
            return False
        if not self.of_shape:
            return True
        counts = Counter(offering.shape for offering in bought)
        return all(counts[shape] <= most for shape, most in self.of_shape.items())

    def affordable(self, offerings: Iterable[Offering], count: int = 1) -> list[Offering]:
        """The offerings of which `count` workers may be bought."""
        if self.workers is not None and count > self.workers:
            return []
        most_usd = math.inf if self.usd_per_hour is None else (self.usd_per_hour + ROUNDING_USD) / count / _HOUR
        return [
            offering
            for offering in offerings
            if self.of_shape.get(offering.shape, count) >= count and offering.usd_per_second <= most_usd
        ]

    def after(self, bought: Sequence[Offering]) -> "Limits":
        """The limits that remain once these workers are bought."""
        counts = Counter(offering.shape for offering in bought)
        return Limits(
            None if self.workers is None else self.workers - len(bought),
            {shape: most - counts[shape] for shape, most in self.of_shape.items()},
            None if self.usd_per_hour is None else self.usd_per_hour - _usd_per_hour(bought),
        )


UNLIMITED = Limits()


def _usd_per_hour(bought: Iterable[Offering]) -> float:
    return sum(offering.usd_per_second for offering in bought) * _HOUR
