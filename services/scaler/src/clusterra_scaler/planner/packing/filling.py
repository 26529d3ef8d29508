"""Rooms that fill up with jobs, and what is bought meanwhile."""

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
            room.order = self._next
            self._next += 1
            self._free.setdefault(int(room.cpus), {})[room.order] = room

    def buy(self, offering: Offering) -> Room:
        """Open a new worker, for a job that is put there next."""
        room = Room.of(f"new-{len(self.bought)}", offering)
        room.order = self._next
        self._next += 1
        self.bought.append(room)
        return room

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
            left = int(room.cpus)
            if free in self._free:
                self._free[free].pop(room.order, None)
            if left and not room.exclusive:
                self._free.setdefault(left, {})[room.order] = room
        self.placed.append(Placed(group, job_id, rooms, usd))

    def place(self, waiting: Waiting, only: Room | None = None, *, buy: bool = False) -> None:
        """Place the jobs where they cost no more than on new workers, the cheapest rooms first, a job whole.

        With `only` no other room is looked at. With `buy` new workers are bought for nodes that find no such room;
        else those jobs stay.
        """
        group, new_usd, nodes = waiting.group, waiting.new_usd, waiting.group.nodes
        cheap = self.cheap(group, new_usd, only)
        placed = 0
        for job_id in waiting.job_ids:
            if not buy and len(cheap) < nodes:
                break
            rooms: list[Room] = []
            usd = 0.0
            while cheap and len(rooms) < nodes:
                adds, _, room = heappop(cheap)
                rooms.append(room)
                usd += adds
            while len(rooms) < nodes:
                rooms.append(self.buy(waiting.offering))
                usd += new_usd
            self.put(group, job_id, tuple(rooms), usd)
            for room in rooms:
                if room.takes(group) and (adds := room.price_of(group, self.settings)) <= new_usd:
                    heappush(cheap, (adds, room.order, room))
            placed += 1
        del waiting.job_ids[:placed]

    def cheap(self, group: Group, new_usd: float, only: Room | None = None) -> list[Priced]:
        """The rooms where a job, or its share on one node, costs no more than on a new worker: a heap."""
        settings = self.settings
        cheap = [
            (usd, room.order, room)
            for room in (islice(self._with(group.cpus), self._looks) if only is None else (only,))
            if room.takes(group) and (usd := room.price_of(group, settings)) <= new_usd
        ]
        heapify(cheap)
        return cheap

    def _with(self, cpus: int) -> Iterator[Room]:
        """Rooms with so many free CPUs; those that would have the fewest left come first."""
        for free in sorted(self._free):
            if free >= cpus:
                yield from self._free[free].values()
