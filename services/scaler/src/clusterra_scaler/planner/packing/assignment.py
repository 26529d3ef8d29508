"""Rooms that fill up with jobs, and what is bought meanwhile."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import NamedTuple

from clusterra_scaler.planner.packing.bin_index import BinIndex, Stack
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.settings import Settings


@dataclass(slots=True)
class Waiting:
    """Jobs of a group that no open room takes, each worth a new worker per node at the price."""

    group: Group
    job_ids: list[str]
    new_usd: float
    offering: Offering
    refused: int = 0
    """No room with a lower `alike` takes another one, as far as there were looks."""


class Placed(NamedTuple):
    """A job on a room for each of its nodes, with the USD it is expected to add."""

    group: Group
    job_id: str
    bins: tuple[Bin, ...]
    usd: float

    @property
    def room_ids(self) -> tuple[str, ...]:
        """Of its rooms."""
        return tuple([bin_.id for bin_ in self.bins])


type Priced = tuple[float, int, Bin]
"""What a job adds on a room in USD, and the order of the room, which decides between equal prices."""


class Assignment:
    """Rooms as they fill up, and what was decided."""

    def __init__(self, bins: Sequence[Bin], offerings: Sequence[Offering], settings: Settings, looks: int) -> None:
        """`rooms` are filled in place; those of a shape have the same offering. For each group at most `looks` of them
        are looked at, of those that are alike one."""
        self.offerings = offerings
        self.settings = settings
        self.placed: list[Placed] = []
        self.bought: list[Bin] = []
        self._looks = looks
        self._orders, self._kinds = count(), count()
        kinds: defaultdict[object, int] = defaultdict(lambda: next(self._kinds))
        for bin_ in bins:
            bin_.order = next(self._orders)
            # By identity: rooms with the same job in them have its very expectation.
            like = (bin_.offering.shape, bin_.cpus, bin_.memory_gib, bin_.gpus, bin_.empty, id(bin_.busy))
            bin_.alike = kinds[like]
        self._shelves = BinIndex(bins)

    def buy(self, offering: Offering) -> Bin:
        """Open a new worker, for a job that is put there next."""
        bin_ = Bin.of("", offering)
        bin_.order, bin_.alike = next(self._orders), next(self._kinds)
        self.bought.append(bin_)
        return bin_

    def take_back(self, bins: Iterable[Bin]) -> None:
        """Undo the purchase of workers that no job shares with others, and all that was placed there."""
        gone = {bin_.order for bin_ in bins}
        self.placed = [each for each in self.placed if each.bins[0].order not in gone]
        for bin_ in self.bought:
            if bin_.order in gone:
                self._shelves.remove(bin_)
        self.bought = [bin_ for bin_ in self.bought if bin_.order not in gone]

    def put(self, group: Group, job_id: str, bins: tuple[Bin, ...], usd: float) -> None:
        """Place one job, on one room for each of its nodes."""
        for bin_ in bins:
            self._shelves.remove(bin_)
            bin_.put(group)
            bin_.alike = next(self._kinds)
            self._shelves.add(bin_)
        self.placed.append(Placed(group, job_id, bins, usd))

    def place(self, waiting: Waiting, only: Bin | None = None, *, buy: bool = False) -> None:
        """Place the jobs where they cost no more than on new workers, the cheapest rooms first, a job whole.

        With `only` no other room is looked at. With `buy` new workers are bought for nodes that find no such room;
        else those jobs stay.
        """
        group, new_usd, nodes = waiting.group, waiting.new_usd, waiting.group.nodes
        cheap = self.cheap(group, new_usd, nodes * len(waiting.job_ids), only, waiting.refused)
        if only is None and nodes == 1:
            waiting.refused = next(self._kinds)
        placed = 0
        while placed < len(waiting.job_ids) and cheap and (buy or len(cheap) >= nodes):
            bins: list[Bin] = []
            usd = 0.0
            while cheap and len(bins) < nodes:
                adds, _, bin_ = heappop(cheap)
                bins.append(bin_)
                usd += adds
            while len(bins) < nodes:
                bins.append(self.buy(waiting.offering))
                usd += new_usd
            self.put(group, waiting.job_ids[placed], tuple(bins), usd)
            for bin_ in bins:
                if bin_.takes(group) and (adds := bin_.price_of(group, self.settings, new_usd)) <= new_usd:
                    heappush(cheap, (adds, bin_.order, bin_))
            placed += 1
        del waiting.job_ids[:placed]
        if buy and waiting.job_ids:
            self._place_on_new(waiting)

    def _place_on_new(self, waiting: Waiting) -> None:
        """Place the jobs on new workers alone, on each as many as cost no more there than on one more.

        How workers fill up is found out by the first of them; the others are its like.
        """
        group, nodes, job_ids = waiting.group, waiting.group.nodes, waiting.job_ids
        placed = 0
        while placed < len(job_ids):
            first = tuple([self.buy(waiting.offering) for _ in range(nodes)])
            prices: list[float] = []
            usd = waiting.new_usd
            while placed < len(job_ids) and usd <= waiting.new_usd:
                self.put(group, job_ids[placed], first, nodes * usd)
                prices.append(nodes * usd)
                placed += 1
                usd = first[0].price_of(group, self.settings) if first[0].takes(group) else math.inf
            times = (len(job_ids) - placed) // len(prices)
            copies = self._copies(first[0], times * nodes)
            for number in range(times):
                bins = tuple(copies[number * nodes : (number + 1) * nodes])
                self.placed += [Placed(group, job_ids[placed + jobs], bins, usd) for jobs, usd in enumerate(prices)]
                placed += len(prices)
        job_ids.clear()

    def _copies(self, bin_: Bin, number: int) -> list[Bin]:
        """So many more new workers with the same in them."""
        copies = [bin_.copy() for _ in range(number)]
        stack = self._shelves.add(bin_)
        for copy in copies:
            copy.order, copy.alike = next(self._orders), bin_.alike
            if stack is not None:
                stack[copy.order] = copy
        self.bought += copies
        return copies

    def cheap(self, group: Group, new_usd: float, most: int, only: Bin | None = None, refused: int = 0) -> list[Priced]:
        """Rooms where a job, or its share on one node, costs no more than on a new worker: a heap.

        Of rooms that are alike at most so many. Those with an `alike` below `refused` cost more.
        """
        if only is not None:
            stacks: Iterable[Stack] = ({only.order: only},)
        else:
            stacks = islice(self._shelves.stacks(group.cpus), self._looks)
        cheap: list[Priced] = []
        for stack in stacks:
            bin_ = next(iter(stack.values()))
            if bin_.alike < refused or not bin_.takes(group):
                continue
            usd = bin_.price_of(group, self.settings, new_usd)
            if usd <= new_usd:
                cheap += [(usd, order, each) for order, each in islice(stack.items(), most)]
        heapify(cheap)
        return cheap
