"""A worker that might be bought, filled to see what it would cost."""

from math import inf, sumprod
from operator import mul

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain
from clusterra_scaler.planner.packing.bins import beside
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings


class TrialBin:
    """Fills and prices as a Room does, in a fraction of its time. The first job bears the boot."""

    __slots__ = (
        "_boot_usd",
        "_cpus",
        "_credit",
        "_empty",
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
        self._empty = True
        self._until = 0.0
        """When the last of its jobs ends, as long as that is certain."""
        self._ended: tuple[float, ...] | None = None
        """Else the chances of that, as of a Remaining."""

    def add(self, group: Group, most: float = inf) -> float | None:
        """Place a job of the group and answer the USD that it adds; None, and no job, where it has no room or adds more
        than `most`. See Room.price_of."""
        offering, remaining = self._offering, group.remaining
        cpus, memory_gib, gpus = self._cpus - group.cpus, self._memory_gib - group.memory_gib, self._gpus - group.gpus
        if (
            cpus < 0
            or memory_gib < -ROUNDING_GIB
            or gpus < 0
            or (group.shapes is not None and offering.shape not in group.shapes)
        ):
            return None
        mean = remaining.mean_seconds
        left = offering.usable(cpus, memory_gib, gpus)
        if self._empty:
            usd = self._boot_usd + (offering.usd_per_second - self._credit * left) * mean
        else:
            if self._ended is not None:
                longer = sumprod(self._ended, remaining.cells)
            elif remaining.seconds is None:
                longer = mean - self._until if mean > self._until else 0.0
            else:
                longer = sumprod(certain(self._until).chances, remaining.cells)
            usd = self._credit * (self._usable - left) * (mean - longer)
            if longer:
                usd += (offering.usd_per_second - self._credit * beside(group, offering)) * longer
        if usd > most:
            return None
        self._cpus, self._memory_gib, self._gpus, self._usable = cpus, memory_gib, gpus, left
        self._prolong(remaining)
        return usd

    def _prolong(self, remaining: Remaining) -> None:
        if self._ended is not None:
            self._ended = tuple(map(mul, self._ended, remaining.chances))
        elif remaining.ended is None:
            self._until = max(self._until, remaining.mean_seconds)
        elif self._empty:
            self._ended = remaining.ended
        else:
            self._ended = tuple(map(mul, certain(self._until).chances, remaining.ended))
        self._empty = False
