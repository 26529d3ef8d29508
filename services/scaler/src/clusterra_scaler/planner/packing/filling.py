"""Rooms that fill up with jobs, and what is bought meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterra_scaler.planner.packing.rooms import Room
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group, Offering


@dataclass(frozen=True, slots=True)
class Placement:
    """A job and its rooms, one for each node, with the USD it is expected to add."""

    job_id: str
    rooms: tuple[str, ...]
    usd: float


@dataclass(frozen=True, slots=True)
class Purchase:
    """A worker to buy, and the room by which placements name it."""

    room: str
    offering: Offering


@dataclass(slots=True)
class Waiting:
    """Jobs of a group that no open room takes, each worth a new worker per node at the price."""

    group: Group
    job_ids: list[str]
    new_usd: float
    offering: Offering


@dataclass(slots=True)
class Filling:
    """Rooms as they fill up, and what was decided."""

    rooms: list[Room]
    """The open ones, then those bought, in the order in which equal prices are decided."""
    offerings: Sequence[Offering]
    settings: Settings
    placements: list[Placement] = field(default_factory=list)
    purchases: list[Purchase] = field(default_factory=list)

    def cheap(self, group: Group, new_usd: float) -> list[tuple[float, Room]]:
        """As many rooms as the job has nodes, where it costs no more than on new workers; the cheapest first.

        Fewer when there are not as many.
        """
        good: list[tuple[float, int, Room]] = []
        for order, room in enumerate(self.rooms):
            if room.takes(group):
                usd = room.price_of(group, self.settings)
                if usd <= new_usd:
                    good.append((usd, order, room))
        good.sort(key=lambda each: each[:2])
        return [(usd, room) for usd, _, room in good[: group.nodes]]

    def buy(self, offering: Offering) -> Room:
        """Open a new worker."""
        room = Room.of(f"new-{len(self.purchases)}", offering)
        self.purchases.append(Purchase(room.id, offering))
        self.rooms.append(room)
        return room

    def put(self, group: Group, job_id: str, priced: Sequence[tuple[float, Room]]) -> None:
        """Place one job, on one room for each of its nodes."""
        for _, room in priced:
            room.put(group)
        self.placements.append(Placement(job_id, tuple(room.id for _, room in priced), sum(usd for usd, _ in priced)))

    def place(self, waiting: Waiting) -> None:
        """Place as many of the jobs as find cheap rooms; those that do not stay."""
        placed = 0
        for job_id in waiting.job_ids:
            priced = self.cheap(waiting.group, waiting.new_usd)
            if len(priced) < waiting.group.nodes:
                break
            self.put(waiting.group, job_id, priced)
            placed += 1
        del waiting.job_ids[:placed]

    def place_or_buy(self, waiting: Waiting) -> None:
        """Place all the jobs, each on what is cheap and on new workers of its own for the rest of its nodes."""
        for job_id in waiting.job_ids:
            priced = self.cheap(waiting.group, waiting.new_usd)
            missing = waiting.group.nodes - len(priced)
            priced += [(waiting.new_usd, self.buy(waiting.offering)) for _ in range(missing)]
            self.put(waiting.group, job_id, priced)
        waiting.job_ids.clear()
