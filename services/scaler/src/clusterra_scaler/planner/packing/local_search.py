"""Local search on what is about to be bought: some workers are removed and their jobs packed again, if that is cheaper.

The packing is greedy: it buys for one job after the other, and may buy two workers where one costs less. So a few
workers are removed, and for their jobs bundles are bought, at prices and in an order that are perturbed at random. The
result is kept where it costs less at the true prices. The random numbers start from the same seed each time, so that
the same input gives the same answer.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.bundles import Order, buy_bundles, longest_first
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Group, Offering
from clusterra_scaler.planner.packing.settings import Settings

MAX_JOBS = 50
"""Larger queues are left alone: they combine in so many ways that greedy packing is good, and the search is slow."""
_TRIALS_FACTOR = 2
"""The search budget, as a multiple of `Settings.trials`."""
_TOLERANCE = 1e-9
"""The share by which two prices must differ, so that rounding decides nothing."""
_PERTURBATION = 0.3
"""By which share prices are changed at most."""
_MAX_REMOVED = 8
"""How many workers are removed at once at most."""
_MIN_PATIENCE, _PATIENCE_PER_JOB, _MAX_PATIENCE = 20, 3, 80
"""After how many steps without success the search stops: at least, for each job more, and at most."""


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker to buy, and its jobs in the order in which they are priced."""

    offering: Offering
    jobs: tuple[tuple[Group, str], ...]
    prices: tuple[float, ...]
    usd: float


def improve(assignment: Assignment) -> None:
    """Replace bought workers where others are cheaper.

    Workers of jobs that run on several nodes, or exclusively, stay.
    """
    if len(assignment.bought) < 2 or len(assignment.placed) > MAX_JOBS:
        return
    contents = _contents(assignment)
    workers = {
        bin_.order: _worker(bin_.offering, contents[bin_.order], assignment.settings)
        for bin_ in assignment.bought
        if bin_.order in contents
    }
    before = list(workers.values())
    after = _searched(before, assignment)
    if _usd(after) < _usd(before) * (1.0 - _TOLERANCE):
        assignment.undo_purchases([bin_ for bin_ in assignment.bought if bin_.order in workers])
        for worker in after:
            bin_ = assignment.buy(worker.offering)
            for (group, job_id), usd in zip(worker.jobs, worker.prices, strict=True):
                assignment.assign(group, job_id, (bin_,), usd)


def _searched(workers: list[_Worker], assignment: Assignment) -> list[_Worker]:
    """The workers at the end of the search."""
    jobs = sum(len(worker.jobs) for worker in workers)
    chance = random.Random(1)  # noqa: S311 - no secret
    patience = full_patience = min(_MIN_PATIENCE + _PATIENCE_PER_JOB * jobs, _MAX_PATIENCE)
    trials = _TRIALS_FACTOR * assignment.settings.trials
    while len(workers) > 1 and patience and trials > 0:
        patience -= 1
        numbers = set(chance.sample(range(len(workers)), chance.randint(2, min(len(workers), _MAX_REMOVED))))
        old = [worker for number, worker in enumerate(workers) if number in numbers]
        trials -= len(assignment.offerings) * sum(len(worker.jobs) for worker in old)
        new = _repacked(old, assignment.offerings, assignment.settings, chance)
        if _usd(new) < _usd(old) * (1.0 - _TOLERANCE):
            workers = [worker for number, worker in enumerate(workers) if number not in numbers] + new
            patience = full_patience
    return workers


def _usd(workers: Iterable[_Worker]) -> float:
    return sum(worker.usd for worker in workers)


def _repacked(
    old: Sequence[_Worker], offerings: Sequence[Offering], settings: Settings, chance: random.Random
) -> list[_Worker]:
    """Workers for the same jobs, packed at perturbed prices and then priced at the true ones."""
    perturbed = [
        Offering(
            each.shape,
            each.cpus,
            each.memory_gib,
            each.usd_per_second * chance.uniform(1.0 - _PERTURBATION, 1.0 + _PERTURBATION),
            each.boot_seconds,
            each.gpus,
        )
        for each in offerings
    ]
    by_group: dict[int, Waiting] = {}
    for worker in old:
        for group, job_id in worker.jobs:
            if id(group) not in by_group:
                new = cheapest_new_worker(group, perturbed, settings)
                if new is None:
                    raise ValueError(f"job {job_id} was placed on a worker, but no shape holds it")
                by_group[id(group)] = Waiting(group, [], *new)
            by_group[id(group)].job_ids.append(job_id)
    waiting = sorted(by_group.values(), key=lambda jobs: -jobs.group.remaining.mean_seconds * jobs.group.cpus)
    assignment = Assignment((), perturbed, settings, settings.trials)
    buy_bundles(waiting, assignment, _random_order(waiting, chance))
    for jobs in waiting:
        assignment.place(jobs, buy=True)
    return [_cheapest(jobs, offerings, settings) for jobs in _contents(assignment).values()]


def _random_order(waiting: Sequence[Waiting], chance: random.Random) -> Order:
    """A random rule for the order of jobs in bundles.

    One time of four the longest job comes first; otherwise the job with the greatest product of run time, share of the
    CPUs or of the memory that all jobs request, and a random factor.
    """
    rule = chance.randint(0, 3)
    if rule == 0:
        return longest_first
    cpus = sum(jobs.group.cpus for jobs in waiting)
    memory_gib = sum(jobs.group.memory_gib for jobs in waiting) or 1.0
    factors = {id(jobs): chance.uniform(0.5, 1.0) for jobs in waiting}

    def order(jobs: Waiting) -> tuple[float, ...]:
        shares = (jobs.group.cpus / cpus, jobs.group.memory_gib / memory_gib)
        size = max(shares) if rule == 3 else shares[rule - 1]
        return (-jobs.group.remaining.mean_seconds * size * factors[id(jobs)],)

    return order


def _cheapest(jobs: Sequence[tuple[Group, str]], offerings: Sequence[Offering], settings: Settings) -> _Worker:
    """The cheapest worker that holds all of the jobs."""
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
    bin_ = Bin.of("", offering)
    prices: list[float] = []
    for group, job_id in jobs:
        if not bin_.fits(group):
            raise ValueError(f"job {job_id} does not fit on a worker of shape {offering.shape}")
        boot_usd = offering.usd_per_second * offering.boot_seconds if bin_.empty else 0.0
        prices.append(bin_.marginal_usd(group, settings) + boot_usd)
        bin_.add(group)
    return _Worker(offering, tuple(jobs), tuple(prices), sum(prices))


def _contents(assignment: Assignment) -> dict[int, list[tuple[Group, str]]]:
    """The jobs of each bought worker, by the bin's order, without workers of jobs that cannot be moved alone."""
    contents: dict[int, list[tuple[Group, str]]] = {bin_.order: [] for bin_ in assignment.bought}
    for placed in assignment.placed:
        for bin_ in placed.bins:
            if placed.group.nodes > 1 or placed.group.exclusive:
                contents.pop(bin_.order, None)
            elif bin_.order in contents:
                contents[bin_.order].append((placed.group, placed.job_id))
    return contents
