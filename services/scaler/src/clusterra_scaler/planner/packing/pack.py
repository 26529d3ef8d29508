"""Pending jobs onto open workers and, for those that nobody takes cheaply, onto new ones."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from clusterra_scaler.planner.packing.assignment import Assignment, Placed, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new, with_room_for_any
from clusterra_scaler.planner.packing.bundles import buy_bundles
from clusterra_scaler.planner.packing.fair_share import Claim, Shop, fill_in_turns
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.limits import UNLIMITED, Limits
from clusterra_scaler.planner.packing.local_search import revise
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.slot_price import prices_of_a_place, trim, with_place

LEAST_LOOKS = 8
"""So many of the open rooms are looked at for every group."""
MOST_JOBS_TRIED_AGAIN = 1000
"""With more it takes too long to try what places would have to cost for all to get room."""
_NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Packing:
    """Where jobs go and what is bought for them."""

    placements: Sequence[Placed]
    purchases: Sequence[Bin]
    """Workers to buy, filled, with ids of their own."""
    impossible: tuple[str, ...]
    """Jobs that no shape holds."""
    unaffordable: tuple[str, ...] = ()
    """Jobs that get nothing because of the bounds."""


@dataclass(frozen=True, slots=True)
class _Question:
    """Who asks for room, and what there is and may be bought."""

    groups: Sequence[Group]
    bins: Sequence[Bin]
    offerings: Sequence[Offering]
    settings: Settings
    limits: Limits
    running: Mapping[str, float]
    claim: Claim | None

    def at_once(self, place_usd: float) -> tuple[Assignment, list[Group]]:
        """All jobs placed as if nothing bound but which shapes there are, and those that no such shape holds."""
        assignment = self._filling(self.limits.offers(self.offerings), place_usd)
        return assignment, _fill(_most_work_first(self.groups), assignment)

    def in_turns(self, place_usd: float, out: Container[int]) -> tuple[Assignment, tuple[str, ...]]:
        """One job after the other, without those groups that are out, and the jobs that get nothing."""
        assignment = self._filling(self.offerings, place_usd)
        queue = [group for group in self.groups if id(group) not in out]
        shop = Shop(self.offerings, self.limits, place_usd)
        return assignment, fill_in_turns(queue, assignment, shop, self.running, self.claim)

    def allows(self, assignment: Assignment) -> bool:
        """Whether all that is bought there may be."""
        return self.limits.allow(self.bought(assignment))

    def bought(self, assignment: Assignment) -> list[Offering]:
        """At its own price."""
        by_shape = {offering.shape: offering for offering in self.offerings}
        return [by_shape[bin_.offering.shape] for bin_ in assignment.bought]

    def _filling(self, offerings: Sequence[Offering], place_usd: float) -> Assignment:
        looks = max(LEAST_LOOKS, self.settings.looks // 2 // max(1, len(self.groups)))
        bins = [bin_.copy() for bin_ in self.bins]
        if place_usd:
            for bin_ in bins:
                bin_.offering = with_place(bin_.offering, place_usd)
        return Assignment(bins, [with_place(each, place_usd) for each in offerings], self.settings, looks)


def pack(
    groups: Iterable[Group],
    bins: Iterable[Bin],
    offerings: Sequence[Offering],
    settings: Settings,
    limits: Limits = UNLIMITED,
    running: Mapping[str, float] = _NOTHING,
    claim: Claim | None = None,
) -> Packing:
    """Place every job that some shape holds, for the least expected cost, a job of several nodes whole.

    No placement costs more than a new worker for each node of its job. Those with the most CPU seconds choose first.
    The same arguments give the same answer, and are left as they are; between equal prices the earlier room goes first.

    Where more workers would be bought than the bounds allow, fewer and larger ones are, if that is enough for all. Else
    owners take turns, each job the best that may still be bought, and an owner's jobs in the order of the groups.
    `running` is what each owner has already, in USD per hour. The job of a claim is served before all others.
    """
    groups = list(groups)
    question = _Question(groups, with_room_for_any(groups, bins), offerings, settings, limits, running, claim)
    assignment, left = question.at_once(0.0)
    impossible = [group for group in left if not any(map(group.runs_on, offerings))]
    out = set(map(id, impossible))
    crowded = limits.workers is not None and len(assignment.bought) > limits.workers
    prices = prices_of_a_place(offerings) if crowded else ()
    place_usd = 0.0
    if claim is None and len(assignment.placed) <= MOST_JOBS_TRIED_AGAIN:
        for place_usd in prices:
            assignment, left = question.at_once(place_usd)
            if question.allows(assignment):
                break
    if claim is None and question.allows(assignment):
        unaffordable: tuple[str, ...] = ()
        queue = [group for group in left if id(group) not in out]
        if queue:
            shop = Shop(offerings, limits.after(question.bought(assignment)), place_usd)
            unaffordable = fill_in_turns(queue, assignment, shop, running)
    else:
        # Where money is scarce, too, dear places may serve fewer.
        ways = prices[-1:] if limits.usd_per_hour is None and crowded else (*prices[-1:], 0.0)
        answers = [question.in_turns(each, out) for each in ways]
        assignment, unaffordable = min(answers, key=lambda each: len(each[1]))
    if crowded:
        trim(assignment, offerings, limits)
    for number, (bin_, offering) in enumerate(zip(assignment.bought, question.bought(assignment), strict=True)):
        bin_.id, bin_.offering = f"new-{number}", offering
    return Packing(
        assignment.placed,
        assignment.bought,
        tuple([job_id for group in impossible for job_id in group.job_ids]),
        unaffordable,
    )


def _most_work_first(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda each: (-each.remaining.mean_seconds * each.cpus, each.job_ids[0]))


def _fill(groups: Iterable[Group], assignment: Assignment) -> list[Group]:
    """Place all the jobs, and answer those that no shape holds."""
    waiting: list[Waiting] = []
    left: list[Group] = []
    for group in groups:
        new = cheapest_new(group, assignment.offerings, assignment.settings)
        if new is None:
            left.append(group)
            continue
        jobs = Waiting(group, list(group.job_ids), *new)
        assignment.place(jobs)
        if jobs.job_ids:
            waiting.append(jobs)
    if assignment.settings.joint:
        buy_bundles(waiting, assignment)
    for jobs in waiting:
        assignment.place(jobs, buy=True)
    if assignment.settings.joint:
        revise(assignment)
    return left
