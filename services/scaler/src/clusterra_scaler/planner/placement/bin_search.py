"""Searches thousands of bins, most of which are full, for those in which a job fits."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group
from clusterra_scaler.planner.placement.fleet_bins import FleetBin

_BLOCK = 64
_TIGHTEN_EVERY = 8
"""Searches of a block in vain before its bounds are computed again, which takes as long as a search."""


class BinSearch:
    """Bins in a fixed order, in blocks, each with bounds of what a bin of it has free.

    Bins are only ever filled, so a bound that was true once stays true, and blocks without enough are skipped.
    """

    def __init__(self, fleet_bins: Sequence[FleetBin], bin_of: Callable[[FleetBin], Bin] = attrgetter("bin")) -> None:
        """`bin_of` tells which bin of a worker is searched."""
        self._blocks = [
            _Block(fleet_bins[first : first + _BLOCK], list(map(bin_of, fleet_bins[first : first + _BLOCK])))
            for first in range(0, len(fleet_bins), _BLOCK)
        ]

    def fitting(self, group: Group) -> Iterator[FleetBin]:
        """The workers in which one node's share of a job fits, in order, each judged when it is reached."""
        cpus, memory_gib = group.cpus, group.memory_gib - ROUNDING_GIB
        for block in self._blocks:
            if block.cpus >= cpus and block.memory_gib >= memory_gib:
                found = False
                for number, bin_ in enumerate(block.bins):
                    if bin_.cpus >= cpus and bin_.fits(group):
                        found = True
                        yield block.fleet_bins[number]
                if not found:
                    block.searched_in_vain()


class _Block:
    __slots__ = ("_in_vain", "bins", "cpus", "fleet_bins", "memory_gib")

    def __init__(self, fleet_bins: Sequence[FleetBin], bins: Sequence[Bin]) -> None:
        self.fleet_bins = fleet_bins
        self.bins = bins
        self._in_vain = 0
        self._tighten()

    def searched_in_vain(self) -> None:
        self._in_vain += 1
        if self._in_vain == _TIGHTEN_EVERY:
            self._tighten()

    def _tighten(self) -> None:
        self._in_vain = 0
        self.cpus = max([bin_.cpus for bin_ in self.bins])
        self.memory_gib = max([bin_.memory_gib for bin_ in self.bins])
