"""Workers bought for several jobs at once, where they cost less together than each on a worker of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.drafts import Draft
from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Offering

_CLEARLY = 1e-12
"""By how much a share of the price must be lower to be preferred, so that rounding decides nothing."""


@dataclass(frozen=True, slots=True)
class _Bundle:
    share: float
    """What it costs of what its jobs would cost alone."""
    offering: Offering
    jobs: tuple[tuple[Waiting, float], ...]
    """One entry for each job, with the USD it adds; the first bears the boot."""
    counts: tuple[tuple[Waiting, int], ...]

    @property
    def waits(self) -> bool:
        """Whether all its jobs still wait. Then it would be found again: who is not in it did not fit."""
        return all(len(jobs.job_ids) >= count for jobs, count in self.counts)


def buy_bundles(waiting: Sequence[Waiting], filling: Filling) -> None:
    """Buy the bundle that saves the greatest share, as long as one saves anything.

    After each, all waiting jobs may go onto what is left free on it.
    """
    search = _Search(waiting, filling)
    while (best := search.best()) is not None:
        room = filling.buy(best.offering)
        for jobs, usd in best.jobs:
            filling.put(jobs, jobs.job_ids.pop(0), (room,), usd)
        for jobs in waiting:
            if jobs.job_ids and room.takes(jobs.group):
                # Rooms that were there before have refused them, and only a job of several nodes may now find enough.
                filling.place(jobs, room if jobs.group.nodes == 1 else None)


class _Search:
    """The longest jobs are tried as the first of a bundle: what comes after them prolongs nothing."""

    def __init__(self, waiting: Iterable[Waiting], filling: Filling) -> None:
        self._offerings = filling.offerings
        self._settings = filling.settings
        self._longest = sorted(
            (jobs for jobs in waiting if jobs.job_ids and jobs.group.nodes == 1 and not jobs.group.exclusive),
            key=lambda jobs: (-jobs.group.remaining.mean_seconds, -jobs.group.cpus),
        )
        self._found: dict[tuple[int, str], _Bundle] = {}

    def best(self) -> _Bundle | None:
        self._longest = [jobs for jobs in self._longest if jobs.job_ids]
        if sum(len(jobs.job_ids) for jobs in self._longest) < 2:
            return None
        best: _Bundle | None = None
        for number, first in enumerate(self._longest[: self._settings.seeds]):
            ordered = self._longest[number:] + self._longest[:number]
            for offering in self._offerings:
                if first.group.runs_on(offering):
                    bundle = self._from(ordered, offering)
                    if bundle is not None and (best is None or bundle.share < best.share - _CLEARLY):
                        best = bundle
        return best if best is not None and best.share < 1.0 else None

    def _from(self, ordered: Sequence[Waiting], offering: Offering) -> _Bundle | None:
        key = (id(ordered[0]), offering.shape)
        found = self._found.get(key)
        if found is None or not found.waits:
            found = _bundle(ordered, offering, self._settings)
            if found is not None:
                self._found[key] = found
        return found


def _bundle(ordered: Sequence[Waiting], offering: Offering, settings: Settings) -> _Bundle | None:
    """The first job on a worker of this shape, and all that cost less beside it than alone. None for one job only."""
    draft = Draft(offering, settings)
    inside: list[tuple[Waiting, float]] = []
    counts: list[tuple[Waiting, int]] = []
    paid = alone = 0.0
    for jobs in ordered:
        group = jobs.group
        before = len(inside)
        for _ in jobs.job_ids:
            if not draft.takes(group):
                break
            usd = draft.price_of(group)
            if inside and usd > jobs.new_usd:
                break
            draft.put(group)
            inside.append((jobs, usd))
            paid += usd
            alone += jobs.new_usd
        if len(inside) > before:
            counts.append((jobs, len(inside) - before))
    if len(inside) < 2 or alone <= 0.0:
        return None
    return _Bundle(paid / alone, offering, tuple(inside), tuple(counts))
