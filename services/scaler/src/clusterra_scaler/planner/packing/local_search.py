"""Second thoughts on what is about to be bought: a few workers are taken back and their jobs bought for once more.

Who buys the best worker first, and then the best for the rest, serves the rest badly. So prices and the order of the
jobs are changed a little by chance, and what comes of it is kept where it costs less at the true prices. Chance begins
at the same point each time: the same question gets the same answer.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import cheapest_new
from clusterra_scaler.planner.packing.bundles import Order, buy_bundles, longest_first
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.trial_bin import TrialBin

MOST_JOBS = 50
"""With more there are so many ways to combine them that the first plan is good, and trying again takes too long."""
_LOOKS = 2
"""By the looks that there are for the first plan."""
_CLEARLY = 1e-9
"""The share of the price by which two prices differ, so that rounding decides nothing."""
_SPREAD = 0.3
"""By which share prices are changed at most."""
_WORKERS = 8
"""How many are taken back at once at most."""
_LEAST_PATIENCE, _PATIENCE, _MOST_PATIENCE = 20, 3, 80
"""So many tries without success are enough: in any case, for each job more, and at most."""


@dataclass(frozen=True, slots=True)
class _Worker:
    """One to buy, and its jobs in the order in which they are priced."""

    offering: Offering
    jobs: tuple[tuple[Group, str], ...]
    prices: tuple[float, ...]
    usd: float


def revise(assignment: Assignment) -> None:
    """Exchange bought workers where others are cheaper. Those of jobs of several nodes, or alone on theirs, stay."""
    if len(assignment.bought) < 2 or len(assignment.placed) > MOST_JOBS:
        return
    inside = _contents(assignment)
    workers = {
        bin_.order: _worker(bin_.offering, inside[bin_.order], assignment.settings)
        for bin_ in assignment.bought
        if bin_.order in inside
    }
    jobs = sum(len(worker.jobs) for worker in workers.values())
    before = list(workers.values())
    after = _revised(before, jobs, assignment)
    if _usd(after) < _usd(before) * (1.0 - _CLEARLY):
        assignment.take_back([bin_ for bin_ in assignment.bought if bin_.order in workers])
        for worker in after:
            bin_ = assignment.buy(worker.offering)
            for (group, job_id), usd in zip(worker.jobs, worker.prices, strict=True):
                assignment.put(group, job_id, (bin_,), usd)


def _revised(workers: list[_Worker], jobs: int, assignment: Assignment) -> list[_Worker]:
    chance = random.Random(1)  # noqa: S311 - no secret
    patience = enough = min(_LEAST_PATIENCE + _PATIENCE * jobs, _MOST_PATIENCE)
    looks = _LOOKS * assignment.settings.looks
    while len(workers) > 1 and patience and looks > 0:
        patience -= 1
        numbers = set(chance.sample(range(len(workers)), chance.randint(2, min(len(workers), _WORKERS))))
        old = [worker for number, worker in enumerate(workers) if number in numbers]
        looks -= len(assignment.offerings) * sum(len(worker.jobs) for worker in old)
        new = _again(old, assignment.offerings, assignment.settings, chance)
        usd, usd_before = _usd(new), _usd(old)
        if usd > usd_before * (1.0 + _CLEARLY) or _together(new) == _together(old):
            continue
        # What costs the same is taken, too: from there it may be one more step to what costs less.
        workers = [worker for number, worker in enumerate(workers) if number not in numbers] + new
        if usd < usd_before * (1.0 - _CLEARLY):
            patience = enough
    return workers


def _usd(workers: Iterable[_Worker]) -> float:
    return sum(worker.usd for worker in workers)


def _together(workers: Iterable[_Worker]) -> set[frozenset[str]]:
    """Which jobs share a worker."""
    return {frozenset([job_id for _, job_id in worker.jobs]) for worker in workers}


def _again(
    old: Sequence[_Worker], offerings: Sequence[Offering], settings: Settings, chance: random.Random
) -> list[_Worker]:
    """Workers for the same jobs, bought as if prices were a little different."""
    changed = [
        Offering(
            each.shape,
            each.cpus,
            each.memory_gib,
            each.usd_per_second * chance.uniform(1.0 - _SPREAD, 1.0 + _SPREAD),
            each.boot_seconds,
            each.gpus,
        )
        for each in offerings
    ]
    asked: dict[int, Waiting] = {}
    for worker in old:
        for group, job_id in worker.jobs:
            if id(group) not in asked:
                new = cheapest_new(group, changed, settings)
                if new is None:
                    raise ValueError(f"job {job_id} is on a worker and no shape holds it")
                asked[id(group)] = Waiting(group, [], *new)
            asked[id(group)].job_ids.append(job_id)
    waiting = sorted(asked.values(), key=lambda jobs: -jobs.group.remaining.mean_seconds * jobs.group.cpus)
    assignment = Assignment((), changed, replace(settings, seeds=1), settings.looks)
    buy_bundles(waiting, assignment, _order(waiting, chance))
    for jobs in waiting:
        assignment.place(jobs, buy=True)
    return [_cheapest(jobs, offerings, settings) for jobs in _contents(assignment).values()]


def _order(waiting: Sequence[Waiting], chance: random.Random) -> Order:
    """The longest first or, three times of four, those first that take most of what all ask for, for longest."""
    rule = chance.randint(0, 3)
    if rule == 0:
        return longest_first
    cpus = sum(jobs.group.cpus for jobs in waiting)
    memory_gib = sum(jobs.group.memory_gib for jobs in waiting) or 1.0
    luck = {id(jobs): chance.uniform(0.5, 1.0) for jobs in waiting}

    def order(jobs: Waiting) -> tuple[float, ...]:
        shares = (jobs.group.cpus / cpus, jobs.group.memory_gib / memory_gib)
        size = max(shares) if rule == 3 else shares[rule - 1]
        return (-jobs.group.remaining.mean_seconds * size * luck[id(jobs)],)

    return order


def _cheapest(jobs: Sequence[tuple[Group, str]], offerings: Sequence[Offering], settings: Settings) -> _Worker:
    cpus = sum([group.cpus for group, _ in jobs])
    memory_gib = sum([group.memory_gib for group, _ in jobs])
    gpus = sum([group.gpus for group, _ in jobs])
    shapes = [group.shapes for group, _ in jobs if group.shapes is not None]
    fitting = [
        offering
        for offering in offerings
        if cpus <= offering.cpus
        and memory_gib <= offering.memory_gib + ROUNDING_GIB
        and gpus <= offering.gpus
        and (not shapes or all(offering.shape in each for each in shapes))
    ]
    return _worker(min(fitting, key=attrgetter("usd_per_second")), jobs, settings)


def _worker(offering: Offering, jobs: Sequence[tuple[Group, str]], settings: Settings) -> _Worker:
    trial = TrialBin(offering, settings)
    prices: list[float] = []
    for group, job_id in jobs:
        usd = trial.add(group)
        if usd is None:
            raise ValueError(f"job {job_id} is to go to {offering.shape}, which has no room for it")
        prices.append(usd)
    return _Worker(offering, tuple(jobs), tuple(prices), sum(prices))


def _contents(assignment: Assignment) -> dict[int, list[tuple[Group, str]]]:
    """The jobs of bought workers by the worker's order, without workers of jobs that cannot be moved alone."""
    inside: dict[int, list[tuple[Group, str]]] = {bin_.order: [] for bin_ in assignment.bought}
    for placed in assignment.placed:
        for bin_ in placed.bins:
            if placed.group.nodes > 1 or placed.group.exclusive:
                inside.pop(bin_.order, None)
            elif bin_.order in inside:
                inside[bin_.order].append((placed.group, placed.job_id))
    return inside
