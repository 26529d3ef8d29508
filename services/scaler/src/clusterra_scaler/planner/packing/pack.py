"""Packs pending jobs into the bins of open workers and of new workers, where no open one takes them cheaply."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.assignment import Assignment, Placed, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker, with_capacity_for_any
from clusterra_scaler.planner.packing.fair_share import NO_PRECEDENCE, LimitedBuyer, Precedence, fill_progressively
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.limits import UNLIMITED, Limits
from clusterra_scaler.planner.packing.local_search import improve
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.slot_price import downsize, slot_prices, with_slot_price
from clusterra_scaler.planner.time_limit import check

MIN_BIN_TRIALS = 8
"""Minimum number of open bins that are tried for each group."""
MAX_JOBS_REPACKED = 1000
"""With more jobs it takes too long to find the slot price at which all of them are served."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Where jobs go and which workers are bought for them."""

    placements: Sequence[Placed]
    purchases: Sequence[Bin]
    """The workers to buy, filled, with ids of their own."""
    impossible: tuple[str, ...]
    """Jobs that no shape holds."""
    unaffordable: tuple[str, ...] = ()
    """Jobs that get nothing because of the limits."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is to be packed, into what, and within which limits."""

    groups: Sequence[Group]
    bins: Sequence[Bin]
    offerings: Sequence[Offering]
    settings: Settings
    limits: Limits
    precedence: Precedence

    def pack_together(self, slot_usd: float) -> tuple[Assignment, list[Group]]:
        """All jobs placed as if only the choice of shapes were limited, and the groups that no such shape holds."""
        assignment = self._open_assignment(self.limits.affordable(self.offerings), slot_usd)
        return assignment, _fill(_most_work_first(self.groups), assignment)

    def pack_by_fair_share(self, slot_usd: float, impossible: Container[int]) -> tuple[Assignment, tuple[str, ...]]:
        """Jobs placed one by one within the limits, and those that get nothing. Groups in `impossible` are left out."""
        assignment = self._open_assignment(self.offerings, slot_usd)
        queue = [group for group in self.groups if id(group) not in impossible]
        buyer = LimitedBuyer(self.offerings, self.limits, slot_usd)
        return assignment, fill_progressively(queue, assignment, buyer, self.precedence)

    def allows(self, assignment: Assignment) -> bool:
        """Whether the limits allow all purchases together."""
        return self.limits.allow(self.bought(assignment))

    def bought(self, assignment: Assignment) -> list[Offering]:
        """The purchases at their prices without the slot price."""
        by_shape = {offering.shape: offering for offering in self.offerings}
        return [by_shape[bin_.offering.shape] for bin_ in assignment.bought]

    def _open_assignment(self, offerings: Sequence[Offering], slot_usd: float) -> Assignment:
        trials = max(MIN_BIN_TRIALS, self.settings.trials // 2 // max(1, len(self.groups)))
        bins = [bin_.copy() for bin_ in self.bins]
        if slot_usd:
            for bin_ in bins:
                bin_.offering = with_slot_price(bin_.offering, slot_usd)
        return Assignment(bins, [with_slot_price(each, slot_usd) for each in offerings], self.settings, trials)


def pack(
    groups: Iterable[Group],
    bins: Iterable[Bin],
    offerings: Sequence[Offering],
    settings: Settings,
    limits: Limits = UNLIMITED,
    precedence: Precedence = NO_PRECEDENCE,
) -> Packing:
    """Place every job that some shape holds at the least expected cost, a job of several nodes whole.

    No placement costs more than a new worker for each node of its job. The jobs with the most CPU seconds choose first.
    The same arguments give the same answer, and are left unchanged; of bins with equal prices the earlier one is used.

    Where more workers would be bought than the limits allow, slot prices make them fewer and larger, if that is enough
    to serve all jobs. Otherwise jobs are served by fair share (see `fill_progressively`), and the head job of
    `precedence` before all others.
    """
    groups = list(groups)
    problem = _Problem(groups, with_capacity_for_any(groups, bins), offerings, settings, limits, precedence)
    assignment, left = problem.pack_together(0.0)
    impossible = [group for group in left if not any(map(group.runs_on, offerings))]
    impossible_ids = set(map(id, impossible))
    too_many = limits.workers is not None and len(assignment.bought) > limits.workers
    prices = slot_prices(offerings) if too_many else ()
    slot_usd = 0.0
    if precedence.head_job is None and len(assignment.placed) <= MAX_JOBS_REPACKED:
        for slot_usd in prices:
            assignment, left = problem.pack_together(slot_usd)
            if problem.allows(assignment):
                break
    if precedence.head_job is None and problem.allows(assignment):
        unaffordable: tuple[str, ...] = ()
        queue = [group for group in left if id(group) not in impossible_ids]
        if queue:
            buyer = LimitedBuyer(offerings, limits.after(problem.bought(assignment)), slot_usd)
            unaffordable = fill_progressively(queue, assignment, buyer, precedence)
    else:
        # Where money is scarce, too, a high slot price may serve fewer jobs than none.
        tried = prices[-1:] if limits.usd_per_hour is None and too_many else (*prices[-1:], 0.0)
        answers = [problem.pack_by_fair_share(each, impossible_ids) for each in tried]
        assignment, unaffordable = min(answers, key=lambda each: len(each[1]))
    if too_many:
        downsize(assignment, offerings, limits)
    for number, (bin_, offering) in enumerate(zip(assignment.bought, problem.bought(assignment), strict=True)):
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
    """Place all jobs; return the groups that no shape holds."""
    waiting: list[Waiting] = []
    left: list[Group] = []
    for group in groups:
        check()
        new = cheapest_new_worker(group, assignment.offerings, assignment.settings)
        if new is None:
            left.append(group)
            continue
        jobs = Waiting(group, list(group.job_ids), *new)
        assignment.place(jobs)
        if jobs.job_ids:
            waiting.append(jobs)
    for jobs in waiting:
        check()
        assignment.place(jobs, buy=True)
    if assignment.settings.local_search:
        improve(assignment)
    return left
