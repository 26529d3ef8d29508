"""Who is served where not all can be: owners take turns, job by job."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.limits import Limits
from clusterra_scaler.planner.packing.slot_price import with_place

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A job whose turn has come. What it needs is bought for nobody else, be it that it cannot have it yet."""

    job_id: str
    shape: str
    """Of the workers that are bought for it."""


class Shop:
    """What may still be bought."""

    def __init__(self, offerings: Sequence[Offering], limits: Limits, place_usd: float = 0.0) -> None:
        """`place_usd` is what each worker is taken to cost more, in USD per second; it counts for no bound."""
        self.place_usd = place_usd
        self._offerings = {each.shape: each for each in offerings}
        self._dear = {each.shape: with_place(each, place_usd) for each in offerings}
        self._bounds = limits
        self._buyable = self._of(1)
        self._best: dict[int, tuple[float, Offering] | None] = {}
        """By group, of what may be bought now."""

    def serve(self, group: Group, job_id: str, assignment: Assignment) -> tuple[Bin, ...]:
        """Place the job and answer its rooms; none where too few are cheap and too few may be bought."""
        if id(group) not in self._best:
            self._best[id(group)] = cheapest_new(group, self._buyable, assignment.settings)
        new = self._best[id(group)]
        usd, offering = new or self._any(group, assignment)
        # One that can be bought is bought where nothing is cheap: who needs no other need not look twice.
        alone = new is not None and group.nodes == 1
        missing = 0 if alone else group.nodes - len(assignment.cheap(group, usd, group.nodes))
        if missing > 1:
            new = cheapest_new(group, self._of(missing), assignment.settings)
            offering = new[1] if new else offering
        if missing > 0 and new is None:
            return ()
        bought = len(assignment.bought)
        assignment.place(Waiting(group, [job_id], usd, offering), buy=True)
        if len(assignment.bought) > bought:
            self._sell(bin_.offering.shape for bin_ in assignment.bought[bought:])
        return assignment.placed[-1].bins

    def keep(self, group: Group, shape: str, assignment: Assignment) -> None:
        """Sell nobody else what a job of the group still needs."""
        usd, _ = self._any(group, assignment)
        self._sell([shape] * max(0, group.nodes - len(assignment.cheap(group, usd, group.nodes))))

    def _any(self, group: Group, assignment: Assignment) -> tuple[float, Offering]:
        """The best of all that there is, be it not to be had; some shape holds the job."""
        dear = list(self._dear.values())
        return cheapest_new(group, dear, assignment.settings) or (0.0, dear[0])

    def _of(self, count: int) -> list[Offering]:
        """Those of which so many may be bought."""
        return [self._dear[each.shape] for each in self._bounds.offers(self._offerings.values(), count)]

    def _sell(self, shapes: Iterable[str]) -> None:
        self._bounds = self._bounds.after([self._offerings[shape] for shape in shapes])
        offers = self._of(1)
        if len(offers) < len(self._buyable):
            self._buyable = offers
            self._best.clear()


def fill_in_turns(
    groups: Sequence[Group],
    assignment: Assignment,
    shop: Shop,
    running: Mapping[str, float],
    claim: Claim | None = None,
) -> tuple[str, ...]:
    """Place jobs and buy for them within the bounds, and answer those that get nothing because of the bounds.

    The next job is always one of the owner who has the least so far, in USD per hour: what is running for him, and his
    share of each worker that a job of his was given. An owner's own jobs come in the order of the groups. A job for
    which its best shape may not be bought gets the next best. Some shape in the shop must hold each job.
    """
    queues: dict[str, deque[tuple[Group, str]]] = {}
    refused: list[str] = []
    hopeless: set[int] = set()
    for group in groups:
        for job_id in group.job_ids:
            if claim is not None and job_id == claim.job_id:
                if not shop.serve(group, job_id, assignment):
                    shop.keep(group, claim.shape, assignment)
                    refused.append(job_id)
                # Of the tasks of an array, which have one id, the first claims.
                claim = None
            else:
                queues.setdefault(group.owner, deque()).append((group, job_id))
    turns = [(running.get(owner, 0.0), number, owner) for number, owner in enumerate(queues)]
    heapify(turns)
    while turns:
        usd_per_hour, number, owner = heappop(turns)
        group, job_id = queues[owner].popleft()
        if id(group) not in hopeless:
            bins = shop.serve(group, job_id, assignment)
            usd_per_hour += sum(_share(group, bin_, shop.place_usd) for bin_ in bins)
            if not bins:
                # What may be bought only gets less.
                hopeless.add(id(group))
        if id(group) in hopeless:
            refused.append(job_id)
        if queues[owner]:
            heappush(turns, (usd_per_hour, number, owner))
    return tuple(refused)


def _share(group: Group, bin_: Bin, place_usd: float) -> float:
    """What the job takes of a worker, in USD per hour: its own price, times the greatest share of what it has."""
    offering = bin_.offering
    shares = [group.cpus / offering.cpus, group.memory_gib / offering.memory_gib]
    if offering.gpus:
        shares.append(group.gpus / offering.gpus)
    return (offering.usd_per_second - place_usd) * _HOUR * (1.0 if group.exclusive else max(shares))
