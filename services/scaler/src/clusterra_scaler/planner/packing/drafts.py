"""A worker that might be bought, filled to see what it would cost."""

from math import sumprod
from operator import mul

from clusterra_scaler.planner.packing.durations import certain
from clusterra_scaler.planner.packing.rooms import beside
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import ROUNDING_GIB, Group, Offering


class Draft:
    """Fills and prices as a Room does, in a fraction of its time. The first job bears the boot."""

    __slots__ = (
        "_boot_usd",
        "_cpus",
        "_credit",
        "_ended",
        "_gpus",
        "_memory_gib",
        "_offering",
        "_until",
        "_usable",
    )

    def __init__(self, offering: Offering, settings: Settings) -> None:
        self._offering = offering
        self._credit = settings.credit
        self._cpus, self._memory_gib, self._gpus = offering.cpus, offering.memory_gib, offering.gpus
        self._usable = offering.usd_per_second
        self._boot_usd = offering.usd_per_second * offering.boot_seconds
        self._until = 0.0
        """When the last of its jobs ends, as long as that is certain."""
        self._ended: tuple[float, ...] | None = None
        """Else the chances of that, as of a Remaining."""

    def takes(self, group: Group) -> bool:
        """Whether a job of the group has room."""
        return (
            group.cpus <= self._cpus
            and group.memory_gib <= self._memory_gib + ROUNDING_GIB
            and group.gpus <= self._gpus
            and (group.shapes is None or self._offering.shape in group.shapes)
        )

    def price_of(self, group: Group) -> float:
        """The USD that a job of the group adds, which must have room. See Room.price_of."""
        offering, remaining = self._offering, group.remaining
        rate, mean = offering.usd_per_second, remaining.mean_seconds
        left = offering.usable(self._cpus - group.cpus, self._memory_gib - group.memory_gib, self._gpus - group.gpus)
        if self._ended is not None:
            longer = sumprod(self._ended, remaining.cells)
        elif self._until == 0.0:
            return self._boot_usd + (rate - self._credit * left) * mean
        elif remaining.seconds is None:
            longer = mean - self._until if mean > self._until else 0.0
        else:
            longer = sumprod(certain(self._until).chances, remaining.cells)
        return rate * longer + self._credit * (
            (self._usable - left) * (mean - longer) - (beside(group, offering) * longer if longer else 0.0)
        )

    def put(self, group: Group) -> None:
        """Place one job of the group."""
        remaining = group.remaining
        self._cpus -= group.cpus
        self._memory_gib -= group.memory_gib
        self._gpus -= group.gpus
        self._usable = self._offering.usable(self._cpus, self._memory_gib, self._gpus)
        if self._ended is not None:
            self._ended = tuple(map(mul, self._ended, remaining.chances))
        elif remaining.ended is None:
            self._until = max(self._until, remaining.mean_seconds)
        elif self._until == 0.0:
            self._ended = remaining.ended
        else:
            self._ended = tuple(map(mul, certain(self._until).chances, remaining.ended))
