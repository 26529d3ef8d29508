"""Rooms that fill up with jobs, and what is bought meanwhile."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

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


@dataclass(frozen=True, slots=True)
class Placed:
    """A job on a room for each of its nodes, with the USD it is expected to add."""

    waiting: Waiting
    job_id: str
    rooms: tuple[Room, ...]
    usd: float


class Filling:
    """Rooms as they fill up, and what was decided."""

    def __init__(
        self, rooms: Iterable[Room], offerings: Sequence[Offering], settings: Settings, least_cpus: int = 1
    ) -> None:
        """`rooms` are filled in place. Those with less than `least_cpus` free count as full."""
        self.offerings = offerings
        self.settings = settings
        self.placed: list[Placed] = []
        self.bought: list[Room] = []
        self._least_cpus = least_cpus
        self._open = [(order, room) for order, room in enumerate(rooms) if room.cpus >= least_cpus]
        """With the order in which equal prices are decided."""
        self._filled = 0
        self._next = len(self._open) and self._open[-1][0] + 1

    def buy(self, offering: Offering) -> Room:
        """Open a new worker."""
        room = Room.of(f"new-{len(self.bought)}", offering)
        self.bought.append(room)
        self._open.append((self._next, room))
        self._next += 1
        return room

    def put(self, waiting: Waiting, job_id: str, rooms: tuple[Room, ...], usd: float) -> None:
        """Place one job, on one room for each of its nodes."""
        for room in rooms:
            room.put(waiting.group)
            self._filled += room.cpus < self._least_cpus
        self.placed.append(Placed(waiting, job_id, rooms, usd))

    def place(self, waiting: Waiting, only: Room | None = None, *, buy: bool = False) -> None:
        """Place the jobs where they cost no more than on new workers, the cheapest rooms first, a job whole.

        With `only` no other room is looked at. With `buy` new workers are bought for nodes that find no such room;
        else those jobs stay.
        """
        group, new_usd = waiting.group, waiting.new_usd
        cheap = self._cheap(waiting, only)
        placed = 0
        for job_id in waiting.job_ids:
            missing = group.nodes - len(cheap)
            if missing > 0 and not buy:
                break
            chosen = [heappop(cheap) for _ in range(min(group.nodes, len(cheap)))]
            chosen += [(new_usd, self._next, self.buy(waiting.offering)) for _ in range(missing)]
            self.put(waiting, job_id, tuple([room for _, _, room in chosen]), sum([usd for usd, _, _ in chosen]))
            for _, order, room in chosen:
                if room.takes(group) and (usd := room.price_of(group, self.settings)) <= new_usd:
                    heappush(cheap, (usd, order, room))
            placed += 1
        del waiting.job_ids[:placed]

    def _cheap(self, waiting: Waiting, only: Room | None) -> list[tuple[float, int, Room]]:
        """What the job adds on each room where that is no more than on a new worker, as a heap."""
        if self._filled * 2 > len(self._open):
            self._open = [each for each in self._open if each[1].cpus >= self._least_cpus]
            self._filled = 0
        group, new_usd, settings = waiting.group, waiting.new_usd, self.settings
        cheap = [
            (usd, order, room)
            for order, room in (self._open if only is None else ((0, only),))
            if room.takes(group) and (usd := room.price_of(group, settings)) <= new_usd
        ]
        heapify(cheap)
        return cheap
