"""Workers bought for several jobs at once, where they cost less together than each on a worker of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from clusterra_scaler.planner.packing.assignment import Assignment, Waiting
from clusterra_scaler.planner.packing.bundle_bound import BundleBound
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.trial_bin import TrialBin

_CLEARLY = 1e-12
"""By how much a share of the price must be lower to be preferred, so that rounding decides nothing."""
_FAVOURITES = 3
"""How many shapes are still tried when there are few looks left."""
_LEAST_WINDOW = 64
"""How many groups are looked at for a bundle at least, where there are as many."""

type Order = Callable[[Waiting], tuple[float, ...]]


def longest_first(jobs: Waiting) -> tuple[float, ...]:
    """What comes after the longest job prolongs nothing. Of equals the biggest first."""
    return (-jobs.group.remaining.mean_seconds, -jobs.group.cpus)


@dataclass(frozen=True, slots=True)
class _Bundle:
    share: float
    """What it costs of what its jobs would cost alone."""
    offering: Offering
    jobs: tuple[tuple[Waiting, float], ...]
    """One entry for each job, with the USD it adds; the first bears the boot."""
    counts: tuple[tuple[Waiting, int], ...]
    """The same by group."""

    @property
    def waits(self) -> bool:
        """Whether all its jobs still wait. Then it would be found again: who is not in it did not fit."""
        return all(len(jobs.job_ids) >= count for jobs, count in self.counts)


def buy_bundles(waiting: Sequence[Waiting], assignment: Assignment, order: Order = longest_first) -> None:
    """Buy the bundle that saves the greatest share, as long as one saves anything and looks are left.

    After each, all waiting jobs may go onto what is left free on it.
    """
    single = [jobs for jobs in waiting if jobs.job_ids and jobs.group.nodes == 1 and not jobs.group.exclusive]
    search = _Search(sorted(single, key=order), assignment)
    while (best := search.best()) is not None:
        bin_ = assignment.buy(best.offering)
        for jobs, usd in best.jobs:
            assignment.put(jobs.group, jobs.job_ids.pop(0), (bin_,), usd)
        if search.narrow:
            # Whoever still waits in the end is held against all open rooms.
            continue
        for jobs in waiting:
            if jobs.job_ids and bin_.takes(jobs.group):
                # Rooms that were there before have refused them, and only a job of several nodes may now find enough.
                assignment.place(jobs, bin_ if jobs.group.nodes == 1 else None)


class _Search:
    """Tries each of the first few jobs as the first of a bundle on each shape, the most promising first.

    With half of its looks gone, it tries only the very first, on the shapes that were best, or promised most, when it
    tried all.
    """

    def __init__(self, ordered: list[Waiting], assignment: Assignment) -> None:
        self._ordered = ordered
        self._settings = assignment.settings
        self._offerings = assignment.offerings
        self._seeds = assignment.settings.seeds
        self._looks = assignment.settings.looks
        self._narrow_at = self._looks // 2
        self._window = max(_LEAST_WINDOW, self._looks // (4 * self._seeds * max(1, len(assignment.offerings))))
        self._found: dict[tuple[int, int], _Bundle | None] = {}
        self._first_usd: dict[tuple[int, int], float | None] = {}
        self.narrow = False

    def best(self) -> _Bundle | None:
        self._ordered = [jobs for jobs in self._ordered if jobs.job_ids]
        if sum(len(jobs.job_ids) for jobs in self._ordered) < 2 or self._looks <= 0:
            return None
        best: _Bundle | None = None
        shares: list[tuple[float, int]] = []
        tries = self._tries()
        for least, number, index in tries:
            if least >= (1.0 if best is None else best.share):
                break
            bundle = self._from(number, index)
            if bundle is None:
                continue
            shares.append((bundle.share, index))
            if best is None or bundle.share < best.share - _CLEARLY:
                best = bundle
        if not self.narrow and self._looks < self._narrow_at:
            self.narrow = True
            self._seeds = 1
            promising = [index for _, index in sorted(shares)] + [index for _, _, index in tries]
            favourites = list(dict.fromkeys(promising))[:_FAVOURITES]
            self._offerings = [self._offerings[index] for index in sorted(favourites)]
            self._found.clear()
            self._first_usd.clear()
        return best if best is not None and best.share < 1.0 else None

    def _tries(self) -> list[tuple[float, int, int]]:
        """The least share that may come of it, the first job and the shape, by their numbers."""
        bound = BundleBound.of(self._ordered[: self._window])
        tries: list[tuple[float, int, int]] = []
        for number, first in enumerate(self._ordered[: self._seeds]):
            for index, offering in enumerate(self._offerings):
                key = (id(first), index)
                if key not in self._first_usd:
                    self._first_usd[key] = TrialBin(offering, self._settings).add(first.group)
                first_usd = self._first_usd[key]
                if first_usd is not None:
                    tries.append((bound.least_share(first, offering, first_usd), number, index))
        tries.sort()
        return tries

    def _from(self, number: int, index: int) -> _Bundle | None:
        key = (id(self._ordered[number]), index)
        found = self._found.get(key)
        if found is None or not found.waits:
            ordered = self._ordered[number : self._window] + self._ordered[:number]
            self._looks -= len(ordered)
            found = _bundle(ordered, self._offerings[index], self._settings)
            self._found[key] = found
        return found


def _bundle(ordered: Sequence[Waiting], offering: Offering, settings: Settings) -> _Bundle | None:
    """The first job on a worker of this shape, and all that cost less beside it than alone. None for one job only."""
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
