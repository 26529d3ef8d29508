"""A bin of a worker that might be bought, filled on trial to find out what a bundle of jobs would cost there."""

from math import inf, sumprod
from operator import mul

from clusterra_scaler.planner.estimates.remaining_time import Remaining, certain
from clusterra_scaler.planner.packing.bins import leftover
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings


class TrialBin:
    """Fills and prices as a Bin does, in some 60 % of the time. The first job bears the boot.

    The search for bundles fills thousands of them per decision. So one call checks, prices and places a job, the value
    of the free capacity is carried from job to job, and the time that the worker is busy stays a number as long as it
    is certain. `test_packing` holds the two against each other.
    """

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
        """When its last job ends, in seconds from now, as long as that is certain."""
        self._ended: tuple[float, ...] | None = None
        """Otherwise the chances that it has ended, as in `Remaining.ended`."""

    def add(self, group: Group, most_usd: float = inf) -> float | None:
        """Place one node's share of a job and return the USD that it adds, see `Bin.marginal_usd`.

        None, and nothing is placed, where it does not fit or adds more than `most_usd`.
        """
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
                usd += (offering.usd_per_second - self._credit * leftover(group, offering)) * longer
        if usd > most_usd:
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
