"""Bins: open or new workers as places for jobs, and the USD that a job adds to a bin's bill."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sumprod

from clusterra_scaler.planner.estimates.remaining_time import OVER, Remaining, last
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings


@dataclass(slots=True)
class Bin:
    """A worker's free capacity, and how long the worker is busy. Filled in place."""

    id: str
    offering: Offering
    cpus: float
    memory_gib: float
    gpus: float
    empty: bool = True
    exclusive: bool = False
    """An exclusive job is in it."""
    busy: Remaining = OVER
    """The time until its last job has ended. A full bin does not keep it up: no price is computed for a full bin."""
    order: int = 0
    """Set by the assignment. Of bins with equal prices the lowest order is filled first."""
    content_id: int = 0
    """Set by the assignment. Bins with the same number have equal contents."""

    @classmethod
    def of(cls, bin_id: str, offering: Offering) -> "Bin":
        """The bin of a new worker."""
        return cls(bin_id, offering, offering.cpus, offering.memory_gib, offering.gpus)

    def copy(self) -> "Bin":
        """Another bin with the same contents."""
        return Bin(self.id, self.offering, self.cpus, self.memory_gib, self.gpus, self.empty, self.exclusive, self.busy)

    def fits(self, group: Group) -> bool:
        """Whether one node's share of a job of the group fits."""
        return (
            group.cpus <= self.cpus
            and group.memory_gib <= self.memory_gib + ROUNDING_GIB
            and group.gpus <= self.gpus
            and not self.exclusive
            and (self.empty or not group.exclusive)
            and (group.shapes is None or self.offering.shape in group.shapes)
        )

    def marginal_usd(self, group: Group, settings: Settings, most_usd: float = inf) -> float:
        """The USD that one node's share of a job is expected to add here. It must fit.

        That is the seconds by which the job prolongs the worker, at the worker's price; plus, at `settings.credit`,
        the usable capacity that it takes while the worker would be up anyway, less the usable capacity that is left
        while the job alone keeps the worker up. The answer may be infinite where the price is above `most_usd`.
        """
        offering, remaining, busy = self.offering, group.remaining, self.busy
        if busy is OVER:
            longer = remaining.mean_seconds
        elif remaining.seconds is None or busy.ended is None:
            longer = remaining.beyond(busy)
        else:
            longer = sumprod(busy.ended, remaining.seconds)
        paid = offering.usd_per_second * longer
        if paid * (1.0 - settings.credit) > most_usd:
            # The usable capacity that is left is never more than the worker has.
            return inf
        cpus, memory_gib, gpus = self.cpus, self.memory_gib, self.gpus
        taken = offering.usable(cpus, memory_gib, gpus) - offering.usable(
            cpus - group.cpus, memory_gib - group.memory_gib, gpus - group.gpus
        )
        return paid + settings.credit * (
            taken * (remaining.mean_seconds - longer) - (leftover(group, offering) * longer if longer else 0.0)
        )

    def add(self, group: Group) -> None:
        """Place one node's share of a job of the group."""
        self.cpus -= group.cpus
        self.memory_gib -= group.memory_gib
        self.gpus -= group.gpus
        self.empty, self.exclusive = False, group.exclusive
        if self.busy is OVER:
            self.busy = group.remaining
        elif self.cpus >= 1 and not self.exclusive:
            self.busy = last((self.busy, group.remaining))


def with_capacity_for_any(groups: Sequence[Group], bins: Iterable[Bin]) -> list[Bin]:
    """The bins that are not full for every group. Of thousands of workers most are."""
    cpus = min((group.cpus for group in groups), default=0)
    memory_gib = min((group.memory_gib for group in groups), default=0.0) - ROUNDING_GIB
    return [bin_ for bin_ in bins if bin_.cpus >= cpus and bin_.memory_gib >= memory_gib and not bin_.exclusive]


def cheapest_new_worker(
    group: Group, offerings: Iterable[Offering], settings: Settings
) -> tuple[float, Offering] | None:
    """The cheapest new worker for one node's share of a job alone: the USD it would add, boot included, and its shape.

    Of shapes that add the same, the one with the lowest price: a job that is expected to end at once adds nothing where
    workers boot at once. None when no shape holds it.
    """
    best, best_usd = None, inf
    cpus, mean, credit = group.cpus, group.remaining.mean_seconds, settings.credit
    credited = (1.0 - credit) * mean
    for offering in offerings:
        if offering.cpus < cpus:
            continue
        rate = offering.usd_per_second
        # A lower bound, with credit for the whole worker: it rules out most shapes before the exact price is computed.
        if rate * (offering.boot_seconds + credited) <= best_usd and group.runs_on(offering):
            usd = rate * (offering.boot_seconds + mean) - credit * leftover(group, offering) * mean
            if best is None or usd < best_usd or (usd == best_usd and rate < best.usd_per_second):
                best, best_usd = offering, usd
    return None if best is None else (best_usd, best)


def leftover(group: Group, offering: Offering) -> float:
    """The value of the usable capacity that a job leaves on a worker of its own, in USD per second."""
    return offering.usable(
        offering.cpus - group.cpus, offering.memory_gib - group.memory_gib, offering.gpus - group.gpus
    )
