"""Buys workers for bundles: several jobs that cost less together than each on a worker of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bundle_bound import BundleBound
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.trial_bin import TrialBin
from clusterra_scaler.planner.time_limit import check

_TOLERANCE = 1e-12
"""By how much a bundle's share must be lower to be preferred, so that rounding decides nothing."""
_SHAPES_WHEN_NARROW = 3
"""How many shapes a narrow search still tries."""
_MIN_WINDOW = 64
"""Minimum number of groups that are considered for a bundle, where there are as many."""

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
    counts: tuple[tuple[Waiting, int], ...]
    """The number of jobs by group."""

    @property
    def still_waits(self) -> bool:
        """Whether all its jobs still wait. Then a new search would find it again: the other jobs did not fit."""
        return all(len(jobs.job_ids) >= count for jobs, count in self.counts)


def buy_bundles(waiting: Sequence[Waiting], assignment: Assignment, order: Order = longest_first) -> None:
    """Buy the bundle that saves the greatest share, again and again, until none saves or no trials are left.

    After each purchase, all waiting jobs may go into what is left free in the new bin.
    """
    single = [jobs for jobs in waiting if jobs.job_ids and jobs.group.nodes == 1 and not jobs.group.exclusive]
    search = _BundleSearch(sorted(single, key=order), assignment)
    while (best := search.best()) is not None:
        check()
        bin_ = assignment.buy(best.offering)
        for jobs, usd in best.jobs:
            assignment.assign(jobs.group, jobs.job_ids.pop(0), (bin_,), usd)
        if search.narrow:
            # Jobs that still wait in the end are tried on all open bins.
            continue
        for jobs in waiting:
            if jobs.job_ids and bin_.fits(jobs.group):
                # Older bins have rejected these jobs. Only a job of several nodes may now find enough bins.
                assignment.place(jobs, bin_ if jobs.group.nodes == 1 else None)


class _BundleSearch:
    """Tries each of the first few jobs as the seed of a bundle on each shape, the lowest bound first.

    Once half of its trials are spent, the search is narrow: it tries the very first job alone, and only on the shapes
    that were best, or had the lowest bounds, when it tried all.
    """

    def __init__(self, ordered: list[Waiting], assignment: Assignment) -> None:
        self._ordered = ordered
        self._settings = assignment.settings
        self._offerings = assignment.offerings
        self._seeds = assignment.settings.bundle_seeds
        self._trials = assignment.settings.trials
        self._narrow_at = self._trials // 2
        self._window = max(_MIN_WINDOW, self._trials // (4 * self._seeds * max(1, len(assignment.offerings))))
        self._found: dict[tuple[int, int], _Bundle | None] = {}
        """By the seed's identity and the shape's index."""
        self._first_usd: dict[tuple[int, int], float | None] = {}
        """The seed's cost on the shape, by the same key; None where it does not fit."""
        self.narrow = False

    def best(self) -> _Bundle | None:
        """The bundle with the lowest share that was found; None when no bundle saves or no trials are left."""
        self._ordered = [jobs for jobs in self._ordered if jobs.job_ids]
        if sum(len(jobs.job_ids) for jobs in self._ordered) < 2 or self._trials <= 0:
            return None
        best: _Bundle | None = None
        shares: list[tuple[float, int]] = []
        bounded = self._bounded()
        for least_share, seed, index in bounded:
            if least_share >= (1.0 if best is None else best.share):
                break
            bundle = self._from_seed(seed, index)
            if bundle is None:
                continue
            shares.append((bundle.share, index))
            if best is None or bundle.share < best.share - _TOLERANCE:
                best = bundle
        if not self.narrow and self._trials < self._narrow_at:
            self.narrow = True
            self._seeds = 1
            promising = [index for _, index in sorted(shares)] + [index for _, _, index in bounded]
            kept = list(dict.fromkeys(promising))[:_SHAPES_WHEN_NARROW]
            self._offerings = [self._offerings[index] for index in sorted(kept)]
            self._found.clear()
            self._first_usd.clear()
        return best if best is not None and best.share < 1.0 else None

    def _bounded(self) -> list[tuple[float, int, int]]:
        """The lower bound of the share for each seed and shape, with their indexes, ascending."""
        bound = BundleBound.of(self._ordered[: self._window])
        bounded: list[tuple[float, int, int]] = []
        for seed, first in enumerate(self._ordered[: self._seeds]):
            for index, offering in enumerate(self._offerings):
                key = (id(first), index)
                if key not in self._first_usd:
                    self._first_usd[key] = TrialBin(offering, self._settings).add(first.group)
                first_usd = self._first_usd[key]
                if first_usd is not None:
                    bounded.append((bound.least_share(first, offering, first_usd), seed, index))
        bounded.sort()
        return bounded

    def _from_seed(self, seed: int, index: int) -> _Bundle | None:
        key = (id(self._ordered[seed]), index)
        found = self._found.get(key)
        if found is None or not found.still_waits:
            ordered = self._ordered[seed : self._window] + self._ordered[:seed]
            self._trials -= len(ordered)
            found = _bundle(ordered, self._offerings[index], self._settings)
            self._found[key] = found
        return found


def _bundle(ordered: Sequence[Waiting], offering: Offering, settings: Settings) -> _Bundle | None:
    """The first job on a worker of this shape, and each next one that costs less there than on a worker of its own.

    None where only one job goes there.
    """
    trial = TrialBin(offering, settings)
    inside: list[tuple[Waiting, float]] = []
    counts: list[tuple[Waiting, int]] = []
    paid = alone = 0.0
    for jobs in ordered:
        group = jobs.group
        before = len(inside)
        for _ in jobs.job_ids:
            usd = trial.add(group, jobs.new_usd if inside else inf)
            if usd is None:
                break
            inside.append((jobs, usd))
            paid += usd
            alone += jobs.new_usd
        if len(inside) > before:
            counts.append((jobs, len(inside) - before))
    if len(inside) < 2 or alone <= 0.0:
        return None
    return _Bundle(paid / alone, offering, tuple(inside), tuple(counts))
