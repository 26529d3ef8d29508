"""Indexes bins by free CPUs, so that a search skips bins that cannot fit and tries equal bins once."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from clusterra_scaler.planner.packing.bins import Bin

type EqualBins = dict[int, Bin]
"""Bins with equal contents, by their order. A job costs the same in each of them."""


class BinIndex:
    """Bins with free CPUs, by the number of free CPUs and then by their contents."""

    def __init__(self, bins: Iterable[Bin]) -> None:
        self._cpus: list[int] = []
        """The indexed numbers of free CPUs, ascending; there may be no such bin any more."""
        self._by_cpus: dict[int, dict[int, EqualBins]] = {}
        """By the number of free CPUs, the bins by their content id."""
        for bin_ in bins:
            self.add(bin_)

    def add(self, bin_: Bin) -> EqualBins | None:
        """Index a bin and return its equals; None, and it is not indexed, where no job can go into it."""
        cpus = int(bin_.cpus)
        if not cpus or bin_.exclusive:
            return None
        if cpus not in self._by_cpus:
            insort(self._cpus, cpus)
            self._by_cpus[cpus] = {}
        equals = self._by_cpus[cpus].setdefault(bin_.content_id, {})
        equals[bin_.order] = bin_
        return equals

    def remove(self, bin_: Bin) -> None:
        """Remove a bin, if it is indexed. Must be called before its contents change."""
        by_content = self._by_cpus.get(int(bin_.cpus), {})
        equals = by_content.get(bin_.content_id)
        if equals is not None:
            equals.pop(bin_.order, None)
            if not equals:
                del by_content[bin_.content_id]

    def best_fit(self, cpus: int) -> Iterator[EqualBins]:
        """Bins with at least `cpus` free CPUs, the tightest fit first."""
        for free in self._cpus[bisect_left(self._cpus, cpus) :]:
            yield from self._by_cpus[free].values()
