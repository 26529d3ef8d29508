"""An open or planned worker as a place for jobs, and what a job adds to its bill."""

from collections.abc import Iterable
from dataclasses import dataclass

from clusterra_scaler.planner.packing.durations import OVER, Remaining, last
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import ROUNDING_GIB, Group, Offering


@dataclass(slots=True)
class Room:
    """What a worker has free, and how long it is busy. Filled in place."""

    id: str
    offering: Offering
    cpus: float
    memory_gib: float
    gpus: float
    empty: bool = True
    exclusive: bool = False
    """An exclusive job is on it."""
    busy: Remaining = OVER
    """Until the last of its jobs has ended."""

    @classmethod
    def of(cls, room_id: str, offering: Offering) -> "Room":
        """A new worker."""
        return cls(room_id, offering, offering.cpus, offering.memory_gib, offering.gpus)

    def copy(self) -> "Room":
        """Another one with the same in it."""
        return Room(
            self.id, self.offering, self.cpus, self.memory_gib, self.gpus, self.empty, self.exclusive, self.busy
        )

    def takes(self, group: Group) -> bool:
        """Whether a job of the group, or its share on one node, has room."""
        return (
            group.cpus <= self.cpus
            and group.memory_gib <= self.memory_gib + ROUNDING_GIB
            and group.gpus <= self.gpus
            and not self.exclusive
            and (self.empty or not group.exclusive)
            and (group.shapes is None or self.offering.shape in group.shapes)
        )

    def price_of(self, group: Group, settings: Settings) -> float:
        """The USD that the job is expected to add here: the seconds by which it prolongs the worker, at its price.

        And, at `credit`, the usable room that it takes while the worker would be up anyway, less the usable room that
        there will be beside it while it alone keeps the worker up.
        """
        offering = self.offering
        longer = group.remaining.beyond(self.busy)
        taken = offering.usable(self.cpus, self.memory_gib, self.gpus) - offering.usable(
            self.cpus - group.cpus, self.memory_gib - group.memory_gib, self.gpus - group.gpus
        )
        return offering.usd_per_second * longer + settings.credit * (
            taken * (group.remaining.mean_seconds - longer) - beside(group, offering) * longer
        )

    def put(self, group: Group) -> None:
        """Place one job of the group, or its share on one node."""
        self.cpus -= group.cpus
        self.memory_gib -= group.memory_gib
        self.gpus -= group.gpus
        self.empty, self.exclusive = False, group.exclusive
        self.busy = last((self.busy, group.remaining))


def cheapest_new(group: Group, offerings: Iterable[Offering], settings: Settings) -> tuple[float, Offering] | None:
    """What a worker bought for one share of the job alone would add in USD, its boot included, and its shape.

    None when no shape holds it.
    """
    best: tuple[float, Offering] | None = None
    mean = group.remaining.mean_seconds
    for offering in offerings:
        if group.runs_on(offering):
            paid = offering.usd_per_second * (offering.boot_seconds + mean)
            usd = paid - settings.credit * beside(group, offering) * mean
            if best is None or usd < best[0]:
                best = usd, offering
    return best


def beside(group: Group, offering: Offering) -> float:
    """The usable room that the job leaves on a worker of its own, in USD per second."""
    return offering.usable(
        offering.cpus - group.cpus, offering.memory_gib - group.memory_gib, offering.gpus - group.gpus
    )
