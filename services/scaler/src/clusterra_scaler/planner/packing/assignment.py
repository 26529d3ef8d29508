"""An assignment of jobs to bins while it is made, and the workers that are bought for it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import NamedTuple

from clusterra_scaler.planner.packing.bin_index import BinIndex, EqualBins
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.time_limit import check


@dataclass(slots=True)
class Waiting:
    """Jobs of a group that are not placed yet, and the cheapest new worker for one node of such a job."""

    group: Group
    job_ids: list[str]
    new_usd: float
    """The USD that the new worker would add."""
    offering: Offering
    rejected_below: int = 0
    """Bins with a lower content id cost more than a new worker, as far as they were tried."""


class Placed(NamedTuple):
    """A job in one bin for each of its nodes, and the USD that it is expected to add."""

    group: Group
    job_id: str
    bins: tuple[Bin, ...]
    usd: float

    @property
    def bin_ids(self) -> tuple[str, ...]:
        """The ids of its bins."""
        return tuple([bin_.id for bin_ in self.bins])


type Priced = tuple[float, int, Bin]
"""The USD that a job adds in a bin, the bin's order, which breaks ties, and the bin."""


class Assignment:
    """Bins as they fill up, the jobs placed, and the workers bought so far."""

    def __init__(self, bins: Sequence[Bin], offerings: Sequence[Offering], settings: Settings, trials: int) -> None:
        """Fills `bins` in place; bins of one shape must have the same offering.

        `trials`: how many open bins are tried for a group at most; of equal bins one is tried.
        """
        self.offerings = offerings
        self.settings = settings
        self.placed: list[Placed] = []
        self.bought: list[Bin] = []
        self._trials = trials
        self._orders, self._content_ids = count(), count()
        content_ids: defaultdict[object, int] = defaultdict(lambda: next(self._content_ids))
        for bin_ in bins:
            bin_.order = next(self._orders)
            # `busy` by identity: bins with the same job in them share its estimate.
            content = (bin_.offering.shape, bin_.cpus, bin_.memory_gib, bin_.gpus, bin_.empty, id(bin_.busy))
            bin_.content_id = content_ids[content]
        self._index = BinIndex(bins)

    def buy(self, offering: Offering) -> Bin:
        """Open a new worker; the caller assigns a job to it next."""
        bin_ = Bin.of("", offering)
        bin_.order, bin_.content_id = next(self._orders), next(self._content_ids)
        self.bought.append(bin_)
        return bin_

    def undo_purchases(self, bins: Iterable[Bin]) -> None:
        """Undo the purchase of workers and all that was placed there. No job may have nodes elsewhere, too."""
        undone = {bin_.order for bin_ in bins}
        self.placed = [each for each in self.placed if each.bins[0].order not in undone]
        for bin_ in self.bought:
            if bin_.order in undone:
                self._index.remove(bin_)
        self.bought = [bin_ for bin_ in self.bought if bin_.order not in undone]

    def assign(self, group: Group, job_id: str, bins: tuple[Bin, ...], usd: float) -> None:
        """Place one job, in one bin for each of its nodes."""
        for bin_ in bins:
            self._index.remove(bin_)
            bin_.add(group)
            bin_.content_id = next(self._content_ids)
            self._index.add(bin_)
        self.placed.append(Placed(group, job_id, bins, usd))

    def place(self, waiting: Waiting, only: Bin | None = None, *, buy: bool = False) -> None:
        """Place the jobs where they cost no more than on new workers, in the cheapest bins first, each job whole.

        With `only`, no other bin is tried. With `buy`, new workers are bought for nodes that find no such bin;
        otherwise those jobs keep waiting.
        """
        group, new_usd, nodes = waiting.group, waiting.new_usd, waiting.group.nodes
        candidates = self.candidates(group, new_usd, nodes * len(waiting.job_ids), only, waiting.rejected_below)
        if only is None and nodes == 1:
            waiting.rejected_below = next(self._content_ids)
        placed = 0
        while placed < len(waiting.job_ids) and candidates and (buy or len(candidates) >= nodes):
            check()
            bins: list[Bin] = []
            usd = 0.0
            while candidates and len(bins) < nodes:
                added_usd, _, bin_ = heappop(candidates)
                bins.append(bin_)
                usd += added_usd
            while len(bins) < nodes:
                bins.append(self.buy(waiting.offering))
                usd += new_usd
            self.assign(group, waiting.job_ids[placed], tuple(bins), usd)
            for bin_ in bins:
                if bin_.fits(group) and (added_usd := bin_.marginal_usd(group, self.settings, new_usd)) <= new_usd:
                    heappush(candidates, (added_usd, bin_.order, bin_))
            placed += 1
        del waiting.job_ids[:placed]
        if buy and waiting.job_ids:
            self._place_on_new(waiting)

    def _place_on_new(self, waiting: Waiting) -> None:
        """Place the jobs on new workers alone, on each as many as cost no more there than on another one.

        The first worker, or the first `nodes` workers, are filled job by job; the others are copies of them.
        """
        group, nodes, job_ids = waiting.group, waiting.group.nodes, waiting.job_ids
        placed = 0
        while placed < len(job_ids):
            check()
            first = tuple([self.buy(waiting.offering) for _ in range(nodes)])
            prices: list[float] = []
            usd = waiting.new_usd
            while placed < len(job_ids) and usd <= waiting.new_usd:
                self.assign(group, job_ids[placed], first, nodes * usd)
                prices.append(nodes * usd)
                placed += 1
                usd = first[0].marginal_usd(group, self.settings) if first[0].fits(group) else math.inf
            times = (len(job_ids) - placed) // len(prices)
            copies = self._copies(first[0], times * nodes)
            for number in range(times):
                bins = tuple(copies[number * nodes : (number + 1) * nodes])
                self.placed += [Placed(group, job_ids[placed + jobs], bins, usd) for jobs, usd in enumerate(prices)]
                placed += len(prices)
        job_ids.clear()

    def _copies(self, bin_: Bin, number: int) -> list[Bin]:
        """Buy more workers with the same contents as a bought one."""
        copies = [bin_.copy() for _ in range(number)]
        equals = self._index.add(bin_)
        for copy in copies:
            copy.order, copy.content_id = next(self._orders), bin_.content_id
            if equals is not None:
                equals[copy.order] = copy
        self.bought += copies
        return copies

    def candidates(
        self, group: Group, new_usd: float, most: int, only: Bin | None = None, rejected_below: int = 0
    ) -> list[Priced]:
        """Bins where one node's share of a job costs no more than on a new worker, as a heap.

        Of equal bins at most `most` are returned. Bins with a content id below `rejected_below` are known to cost more.
        """
        if only is not None:
            tried: Iterable[EqualBins] = ({only.order: only},)
        else:
            tried = islice(self._index.best_fit(group.cpus), self._trials)
        candidates: list[Priced] = []
        for equals in tried:
            bin_ = next(iter(equals.values()))
            if bin_.content_id < rejected_below or not bin_.fits(group):
                continue
            usd = bin_.marginal_usd(group, self.settings, new_usd)
            if usd <= new_usd:
                candidates += [(usd, order, each) for order, each in islice(equals.items(), most)]
        heapify(candidates)
        return candidates
