"""An open or planned worker as a place for jobs, and what a job adds to its bill."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sumprod

from clusterra_scaler.planner.estimates.remaining_time import OVER, Remaining, last
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings


@dataclass(slots=True)
class Bin:
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
    """Until the last of its jobs has ended. It is not kept up where no room is left: nobody asks what more costs."""
    order: int = 0
    """Between equal prices the lowest goes first. Whoever fills rooms sets it."""
    alike: int = 0
    """Rooms of the same number have the same in them. Whoever fills rooms sets it."""

    @classmethod
    def of(cls, room_id: str, offering: Offering) -> "Bin":
        """A new worker."""
        return cls(room_id, offering, offering.cpus, offering.memory_gib, offering.gpus)

    def copy(self) -> "Bin":
        """Another one with the same in it."""
        return Bin(self.id, self.offering, self.cpus, self.memory_gib, self.gpus, self.empty, self.exclusive, self.busy)

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

    def price_of(self, group: Group, settings: Settings, most: float = inf) -> float:
        """The USD that the job is expected to add here: the seconds by which it prolongs the worker, at its price.

        And, at `credit`, the usable room that it takes while the worker would be up anyway, less the usable room that
        there will be beside it while it alone keeps the worker up. Where that is more than `most`, it may be infinite.
        """
        offering, remaining, busy = self.offering, group.remaining, self.busy
        if busy is OVER:
            longer = remaining.mean_seconds
        elif remaining.seconds is None or busy.ended is None:
            longer = remaining.beyond(busy)
        else:
            longer = sumprod(busy.ended, remaining.seconds)
        paid = offering.usd_per_second * longer
        if paid * (1.0 - settings.credit) > most:
            # There is never more usable room beside it than the worker has.
            return inf
        cpus, memory_gib, gpus = self.cpus, self.memory_gib, self.gpus
        taken = offering.usable(cpus, memory_gib, gpus) - offering.usable(
            cpus - group.cpus, memory_gib - group.memory_gib, gpus - group.gpus
        )
        return paid + settings.credit * (
            taken * (remaining.mean_seconds - longer) - (beside(group, offering) * longer if longer else 0.0)
        )

    def put(self, group: Group) -> None:
        """Place one job of the group, or its share on one node."""
        self.cpus -= group.cpus
        self.memory_gib -= group.memory_gib
        self.gpus -= group.gpus
        self.empty, self.exclusive = False, group.exclusive
        if self.busy is OVER:
            self.busy = group.remaining
        elif self.cpus >= 1 and not self.exclusive:
            self.busy = last((self.busy, group.remaining))


def with_room_for_any(groups: Sequence[Group], bins: Iterable[Bin]) -> list[Bin]:
    """Those that are not full for all of the groups: of thousands of workers most are."""
    cpus = min((group.cpus for group in groups), default=0)
    memory_gib = min((group.memory_gib for group in groups), default=0.0) - ROUNDING_GIB
    return [bin_ for bin_ in bins if bin_.cpus >= cpus and bin_.memory_gib >= memory_gib and not bin_.exclusive]


def cheapest_new(group: Group, offerings: Iterable[Offering], settings: Settings) -> tuple[float, Offering] | None:
    """What a worker bought for one share of the job alone would add in USD, its boot included, and its shape.

    None when no shape holds it.
    """
    best, best_usd = None, inf
    cpus, mean, credit = group.cpus, group.remaining.mean_seconds, settings.credit
    credited = (1.0 - credit) * mean
    for offering in offerings:
        if offering.cpus < cpus:
            continue
        rate = offering.usd_per_second
        # No credit is more than that for all of it, which spares most shapes a closer look.
        if rate * (offering.boot_seconds + credited) <= best_usd and group.runs_on(offering):
            usd = rate * (offering.boot_seconds + mean) - credit * beside(group, offering) * mean
            if usd < best_usd:
                best, best_usd = offering, usd
    return None if best is None else (best_usd, best)


def beside(group: Group, offering: Offering) -> float:
    """The usable room that the job leaves on a worker of its own, in USD per second."""
    return offering.usable(
        offering.cpus - group.cpus, offering.memory_gib - group.memory_gib, offering.gpus - group.gpus
    )
