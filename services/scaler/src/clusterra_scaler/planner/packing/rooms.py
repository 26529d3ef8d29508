"""An open or planned worker as a place for jobs, and what a job adds to its bill."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sumprod

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
    order: int = 0
    """Between equal prices the lowest goes first. Whoever fills rooms sets it."""
    alike: int | None = None
    """Rooms of the same number have the same in them. None: it is like no other. Whoever fills rooms sets it."""

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
        offering, remaining, busy = self.offering, group.remaining, self.busy
        if busy is OVER:
            longer = remaining.mean_seconds
        elif remaining.seconds is None or busy.ended is None:
            longer = remaining.beyond(busy)
        else:
            longer = sumprod(busy.ended, remaining.seconds)
        cpus, memory_gib, gpus = self.cpus, self.memory_gib, self.gpus
        taken = offering.usable(cpus, memory_gib, gpus) - offering.usable(
            cpus - group.cpus, memory_gib - group.memory_gib, gpus - group.gpus
        )
        return offering.usd_per_second * longer + settings.credit * (
            taken * (remaining.mean_seconds - longer) - (beside(group, offering) * longer if longer else 0.0)
        )

    def put(self, group: Group) -> None:
        """Place one job of the group, or its share on one node."""
        self.cpus -= group.cpus
        self.memory_gib -= group.memory_gib
        self.gpus -= group.gpus
        self.empty, self.exclusive, self.alike = False, group.exclusive, None
        self.busy = group.remaining if self.busy is OVER else last((self.busy, group.remaining))


def cheapest_new(group: Group, offerings: Iterable[Offering], settings: Settings) -> tuple[float, Offering] | None:
    """What a worker bought for one share of the job alone would add in USD, its boot included, and its shape.

    None when no shape holds it.
    """
    best: tuple[float, Offering] | None = None
    mean, credit = group.remaining.mean_seconds, settings.credit
    for offering in offerings:
        rate = offering.usd_per_second
        paid = rate * (offering.boot_seconds + mean)
        # No credit is more than that for all of it, which spares most shapes a closer look.
        if best is not None and paid - credit * rate * mean > best[0]:
            continue
        if group.runs_on(offering):
            usd = paid - credit * beside(group, offering) * mean
            if best is None or usd < best[0]:
                best = usd, offering
    return best


def beside(group: Group, offering: Offering) -> float:
    """The usable room that the job leaves on a worker of its own, in USD per second."""
    return offering.usable(
        offering.cpus - group.cpus, offering.memory_gib - group.memory_gib, offering.gpus - group.gpus
    )
