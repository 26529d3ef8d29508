"""Buys workers for bundles: several jobs that cost less together than each on a worker of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.time_limit import check

_TOLERANCE = 1e-12
"""By how much a bundle's share must be lower to be preferred, so that rounding decides nothing."""

type Order = Callable[[Waiting], tuple[float, ...]]
"""A sort key: the order in which jobs go into a bundle."""


def longest_first(jobs: Waiting) -> tuple[float, ...]:
    """The longest job first, because what runs beside it prolongs nothing. Of equally long jobs the biggest first."""
    return (-jobs.group.remaining.mean_seconds, -jobs.group.cpus)


@dataclass(frozen=True, slots=True)
class _Bundle:
    share: float
    """Its cost as a share of what its jobs would cost on workers of their own."""
    offering: Offering
    jobs: tuple[tuple[Waiting, float], ...]
    """An entry for each job, with the USD that it adds; the first job bears the boot."""


def buy_bundles(waiting: Sequence[Waiting], assignment: Assignment, order: Order) -> None:
    """Buy the bundle of the first job that saves the greatest share, again and again, until none saves.

    After each purchase, all waiting jobs may go into what is left free in the new bin. All jobs run on one node, and
    none exclusively.
    """
    ordered = sorted(waiting, key=order)
    while (best := _best(ordered, assignment)) is not None:
        check()
        bin_ = assignment.buy(best.offering)
        for jobs, usd in best.jobs:
            assignment.assign(jobs.group, jobs.job_ids.pop(0), (bin_,), usd)
        for jobs in waiting:
            if jobs.job_ids and bin_.fits(jobs.group):
                assignment.place(jobs, bin_)
        ordered = [jobs for jobs in ordered if jobs.job_ids]


def _best(ordered: Sequence[Waiting], assignment: Assignment) -> _Bundle | None:
    """The bundle with the lowest share, over all shapes; None when none saves."""
    best: _Bundle | None = None
    for offering in assignment.offerings:
        bundle = _bundle(ordered, offering, assignment.settings)
        if bundle is not None and bundle.share < (1.0 if best is None else best.share) - _TOLERANCE:
            best = bundle
    return best


def _bundle(ordered: Sequence[Waiting], offering: Offering, settings: Settings) -> _Bundle | None:
    """The first job on a worker of this shape, and each next one that costs less there than on a worker of its own.

    None where only one job goes there.
    """
    bin_ = Bin.of("", offering)
    inside: list[tuple[Waiting, float]] = []
    paid = alone = 0.0
    for jobs in ordered:
        group = jobs.group
        for _ in jobs.job_ids:
            if not bin_.fits(group):
                break
            usd = bin_.marginal_usd(group, settings, jobs.new_usd if inside else inf)
            if not inside:
                usd += offering.usd_per_second * offering.boot_seconds
            elif usd > jobs.new_usd:
                break
            bin_.add(group)
            inside.append((jobs, usd))
            paid += usd
            alone += jobs.new_usd
        if not inside:
            return None
    if len(inside) < 2 or alone <= 0.0:
        return None
    return _Bundle(paid / alone, offering, tuple(inside))
