"""Rooms by what they have free, so that who looks for one need not look at all."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from clusterra_scaler.planner.packing.bins import Bin

type Stack = dict[int, Bin]
"""Rooms with the same in them, by their order: each costs any job as much as the others."""


class BinIndex:
    """Rooms with free CPUs, by how many those are. Rooms that are alike stand in one stack."""

    def __init__(self, bins: Iterable[Bin]) -> None:
        self._cpus: list[int] = []
        """Of each shelf, the fewest first; it may be empty by now."""
        self._stacks: dict[int, dict[int, Stack]] = {}
        """Of each shelf, by what its rooms are like."""
        for bin_ in bins:
            self.add(bin_)

    def add(self, bin_: Bin) -> Stack | None:
        """Keep a room if it has room, and answer where it stands then."""
        cpus = int(bin_.cpus)
        if not cpus or bin_.exclusive:
            return None
        if cpus not in self._stacks:
            insort(self._cpus, cpus)
            self._stacks[cpus] = {}
        stack = self._stacks[cpus].setdefault(bin_.alike, {})
        stack[bin_.order] = bin_
        return stack

    def remove(self, bin_: Bin) -> None:
        """Take a room away, if it is there, before anything in it changes."""
        shelf = self._stacks.get(int(bin_.cpus), {})
        stack = shelf.get(bin_.alike)
        if stack is not None:
            stack.pop(bin_.order, None)
            if not stack:
                del shelf[bin_.alike]

    def stacks(self, cpus: int) -> Iterator[Stack]:
        """Rooms with at least so many free CPUs; those that would have the fewest left come first."""
        for free in self._cpus[bisect_left(self._cpus, cpus) :]:
            yield from self._stacks[free].values()
