"""Rooms that fill up with jobs, and what is bought meanwhile."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from clusterra_scaler.planner.packing.rooms import Room
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group, Offering


@dataclass(slots=True)
class Waiting:
    """Jobs of a group that no open room takes, each worth a new worker per node at the price."""

    group: Group
    job_ids: list[str]
    new_usd: float
    offering: Offering


class Placed(NamedTuple):
    """A job on a room for each of its nodes, with the USD it is expected to add."""

    group: Group
    job_id: str
    rooms: tuple[Room, ...]
    usd: float


type Priced = tuple[float, int, Room]
"""What a job adds on a room in USD, and the order of the room, which decides between equal prices."""


class Filling:
    """Rooms as they fill up, and what was decided."""

    def __init__(self, rooms: Iterable[Room], offerings: Sequence[Offering], settings: Settings, looks: int) -> None:
        """`rooms` are filled in place. For each group at most `looks` of those with enough CPUs are looked at."""
        self.offerings = offerings
        self.settings = settings
        self.placed: list[Placed] = []
        self.bought: list[Room] = []
        self._looks = looks
        self._next = 0
        self._free: dict[int, dict[int, Room]] = {}
        """Rooms by whole free CPUs, then by their order."""
        for room in rooms:
            room.order, room.alike = self._next, None
            self._next += 1
            self._free.setdefault(int(room.cpus), {})[room.order] = room

    def buy(self, offering: Offering) -> Room:
        """Open a new worker, for a job that is put there next."""
        return self._open(Room.of("", offering))

    def take_back(self, rooms: Iterable[Room]) -> None:
        """Undo the purchase of workers that no job shares with others, and all that was placed there."""
        gone = {room.order for room in rooms}
        self.placed = [each for each in self.placed if each.rooms[0].order not in gone]
        self.bought = [room for room in self.bought if room.order not in gone]
        for number, room in enumerate(self.bought):
            room.id = f"new-{number}"
        for shelf in self._free.values():
            for order in gone & shelf.keys():
                del shelf[order]

    def put(self, group: Group, job_id: str, rooms: tuple[Room, ...], usd: float) -> None:
        """Place one job, on one room for each of its nodes."""
        for room in rooms:
            free = int(room.cpus)
            room.put(group)
            if free in self._free:
                self._free[free].pop(room.order, None)
            self._shelve(room)
        self.placed.append(Placed(group, job_id, rooms, usd))

    def place(self, waiting: Waiting, only: Room | None = None, *, buy: bool = False) -> None:
        """Place the jobs where they cost no more than on new workers, the cheapest rooms first, a job whole.

        With `only` no other room is looked at. With `buy` new workers are bought for nodes that find no such room;
        else those jobs stay.
        """
        group, new_usd, nodes = waiting.group, waiting.new_usd, waiting.group.nodes
        cheap = self.cheap(group, new_usd, only)
        placed = 0
        while placed < len(waiting.job_ids) and cheap and (buy or len(cheap) >= nodes):
            rooms: list[Room] = []
            usd = 0.0
            while cheap and len(rooms) < nodes:
                adds, _, room = heappop(cheap)
                rooms.append(room)
                usd += adds
            while len(rooms) < nodes:
                rooms.append(self.buy(waiting.offering))
                usd += new_usd
            self.put(group, waiting.job_ids[placed], tuple(rooms), usd)
            for room in rooms:
                if room.takes(group) and (adds := room.price_of(group, self.settings)) <= new_usd:
                    heappush(cheap, (adds, room.order, room))
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
            while placed + len(prices) <= len(job_ids):
                alike = tuple([self._open(room.copy()) for room in first])
                for room in alike:
                    room.alike = first[0].order
                    self._shelve(room)
                self.placed += [Placed(group, job_ids[placed + jobs], alike, usd) for jobs, usd in enumerate(prices)]
                placed += len(prices)
        job_ids.clear()

    def _open(self, room: Room) -> Room:
        room.id = f"new-{len(self.bought)}"
        room.order = self._next
        self._next += 1
        self.bought.append(room)
        return room

    def _shelve(self, room: Room) -> None:
        """Keep it among those with room, if there is any."""
        free = int(room.cpus)
        if free and not room.exclusive:
            self._free.setdefault(free, {})[room.order] = room

    def cheap(self, group: Group, new_usd: float, only: Room | None = None) -> list[Priced]:
        """The rooms where a job, or its share on one node, costs no more than on a new worker: a heap."""
        cheap: list[Priced] = []
        usd, alike = math.inf, None
        for room in islice(self._with(group.cpus), self._looks) if only is None else (only,):
            if alike is None or room.alike != alike:
                usd = room.price_of(group, self.settings) if room.takes(group) else math.inf
                alike = room.alike
            if usd <= new_usd:
                cheap.append((usd, room.order, room))
        heapify(cheap)
        return cheap

    def _with(self, cpus: int) -> Iterator[Room]:
        """Rooms with so many free CPUs; those that would have the fewest left come first."""
        for free in sorted(self._free):
            if free >= cpus:
                yield from self._free[free].values()
