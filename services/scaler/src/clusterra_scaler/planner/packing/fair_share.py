"""Fair share by progressive filling: where the limits do not let all jobs be served, owners are served in turn.

The next job is always one of the owner with the least so far. The head job is served before all others, and what it
needs is reserved for it, as in EASY backfill.

Progressive filling: D. Bertsekas, R. Gallager, Data Networks (1992), section 6.5.2. Dominant shares: A. Ghodsi et al.,
Dominant Resource Fairness, NSDI (2011). EASY backfill: D. A. Lifka, The ANL/IBM SP Scheduling System, JSSPP (1995).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.limits import Limits
from clusterra_scaler.planner.packing.slot_price import with_slot_price
from clusterra_scaler.planner.time_limit import check

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class HeadJob:
    """The head job. What it needs is bought for no other job, even while the job itself cannot have it yet."""

    job_id: str
    shape: str
    """The shape of the workers that are bought for it."""


@dataclass(frozen=True, slots=True)
class Precedence:
    """What decides which jobs are served first at a limit."""

    usd_per_hour: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The cost of each owner's running jobs."""
    head_job: HeadJob | None = None


NO_PRECEDENCE = Precedence()


class LimitedBuyer:
    """Places jobs one by one and buys workers for them, as long as the limits allow."""

    def __init__(self, offerings: Sequence[Offering], limits: Limits, slot_usd: float = 0.0) -> None:
        """`slot_usd` is the slot price in USD per second; it does not count towards the limits."""
        self.slot_usd = slot_usd
        self._offerings = {each.shape: each for each in offerings}
        self._slot_priced = {each.shape: with_slot_price(each, slot_usd) for each in offerings}
        self._limits = limits
        self._affordable = self._affordable_of(1)
        self._cheapest: dict[int, tuple[float, Offering] | None] = {}
        """By the group's identity, the cheapest new worker that may be bought now."""

    def place(self, group: Group, job_id: str, assignment: Assignment) -> tuple[Bin, ...]:
        """Place the job and return its bins; an empty tuple where too few bins are cheap and too few may be bought."""
        if id(group) not in self._cheapest:
            self._cheapest[id(group)] = cheapest_new_worker(group, self._affordable, assignment.settings)
        new = self._cheapest[id(group)]
        usd, offering = new or self._unlimited_cheapest(group, assignment)
        # A job of one node that can have a new worker lacks none: open bins need not be counted.
        always_served = new is not None and group.nodes == 1
        missing = 0 if always_served else group.nodes - len(assignment.candidates(group, usd, group.nodes))
        if missing > 1:
            new = cheapest_new_worker(group, self._affordable_of(missing), assignment.settings)
            offering = new[1] if new else offering
        if missing > 0 and new is None:
            return ()
        bought = len(assignment.bought)
        assignment.place(Waiting(group, [job_id], usd, offering), buy=True)
        if len(assignment.bought) > bought:
            self._deduct(bin_.offering.shape for bin_ in assignment.bought[bought:])
        return assignment.placed[-1].bins

    def reserve(self, group: Group, shape: str, assignment: Assignment) -> None:
        """Deduct from the limits what a job of the group still needs, so that no other job gets it."""
        usd, _ = self._unlimited_cheapest(group, assignment)
        self._deduct([shape] * max(0, group.nodes - len(assignment.candidates(group, usd, group.nodes))))

    def _unlimited_cheapest(self, group: Group, assignment: Assignment) -> tuple[float, Offering]:
        """The cheapest new worker if nothing were limited; some shape holds the job."""
        offerings = list(self._slot_priced.values())
        return cheapest_new_worker(group, offerings, assignment.settings) or (0.0, offerings[0])

    def _affordable_of(self, count: int) -> list[Offering]:
        """The offerings, slot price included, of which `count` workers may be bought."""
        return [self._slot_priced[each.shape] for each in self._limits.affordable(self._offerings.values(), count)]

    def _deduct(self, shapes: Iterable[str]) -> None:
        self._limits = self._limits.after([self._offerings[shape] for shape in shapes])
        affordable = self._affordable_of(1)
        if len(affordable) < len(self._affordable):
            self._affordable = affordable
            self._cheapest.clear()


def fill_progressively(
    groups: Sequence[Group], assignment: Assignment, buyer: LimitedBuyer, precedence: Precedence = NO_PRECEDENCE
) -> tuple[str, ...]:
    """Place jobs and buy for them within the limits; return the jobs that get nothing because of the limits.

    The next job is always one of the owner with the least so far, in USD per hour: the cost of the owner's running
    jobs, and the shares of workers that the owner's jobs were given here. An owner's jobs are served in the order of
    the groups. A job whose cheapest shape may not be bought gets the next cheapest. Some offering must hold each job.
    """
    queues: dict[str, deque[tuple[Group, str]]] = {}
    unserved: list[str] = []
    exhausted: set[int] = set()
    """The groups, by identity, for which nothing more can be bought."""
    head_job = precedence.head_job
    for group in groups:
        for job_id in group.job_ids:
            if head_job is not None and job_id == head_job.job_id:
                if not buyer.place(group, job_id, assignment):
                    buyer.reserve(group, head_job.shape, assignment)
                    unserved.append(job_id)
                # The tasks of an array share an id; the first of them is the head job.
                head_job = None
            else:
                queues.setdefault(group.owner, deque()).append((group, job_id))
    owners = [(precedence.usd_per_hour.get(owner, 0.0), number, owner) for number, owner in enumerate(queues)]
    heapify(owners)
    while owners:
        usd_per_hour, number, owner = heappop(owners)
        group, job_id = queues[owner].popleft()
        if id(group) not in exhausted:
            check()
            bins = buyer.place(group, job_id, assignment)
            usd_per_hour += sum(_dominant_share_usd_per_hour(group, bin_, buyer.slot_usd) for bin_ in bins)
            if not bins:
                # The limits only get tighter.
                exhausted.add(id(group))
        if id(group) in exhausted:
            unserved.append(job_id)
        if queues[owner]:
            heappush(owners, (usd_per_hour, number, owner))
    return tuple(unserved)


def _dominant_share_usd_per_hour(group: Group, bin_: Bin, slot_usd: float) -> float:
    """What the job takes of a worker: the worker's price without the slot price, times the job's dominant share."""
    offering = bin_.offering
    shares = [group.cpus / offering.cpus, group.memory_gib / offering.memory_gib]
    if offering.gpus:
        shares.append(group.gpus / offering.gpus)
    return (offering.usd_per_second - slot_usd) * _HOUR * (1.0 if group.exclusive else max(shares))
