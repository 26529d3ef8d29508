"""Workers bought for several jobs at once, where they cost less together than each on a worker of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.filling import Filling, Waiting
from clusterra_scaler.planner.packing.rooms import Room
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


def buy_bundles(waiting: Sequence[Waiting], filling: Filling) -> None:
    """Buy the bundle that saves the greatest share, as long as one saves anything.

    After each, all waiting jobs may go onto what is left free on it.
    """
    while (best := _best(waiting, filling)) is not None:
        room = filling.buy(best.offering)
        for jobs, usd in best.jobs:
            filling.put(jobs.group, jobs.job_ids.pop(0), [(usd, room)])
        for jobs in waiting:
            filling.place(jobs)


def _best(waiting: Sequence[Waiting], filling: Filling) -> _Bundle | None:
    """The longest jobs are tried as the first of a bundle: what comes after them prolongs nothing."""
    longest = sorted(
        (jobs for jobs in waiting if jobs.job_ids and jobs.group.nodes == 1 and not jobs.group.exclusive),
        key=lambda jobs: (-jobs.group.remaining.mean_seconds, -jobs.group.cpus),
    )
    if sum(len(jobs.job_ids) for jobs in longest) < 2:
        return None
    best: _Bundle | None = None
    for number, first in enumerate(longest[: filling.settings.seeds]):
        ordered = longest[number:] + longest[:number]
        for offering in filling.offerings:
            if first.group.runs_on(offering):
                bundle = _bundle(ordered, offering, filling.settings)
                if bundle is not None and (best is None or bundle.share < best.share - _CLEARLY):
                    best = bundle
    return best if best is not None and best.share < 1.0 else None


def _bundle(ordered: Sequence[Waiting], offering: Offering, settings: Settings) -> _Bundle | None:
    """The first job on a worker of this shape, and all that cost less beside it than alone. None for one job only."""
    room = Room.of("", offering)
    inside: list[tuple[Waiting, float]] = []
    paid = alone = 0.0
    for jobs in ordered:
        for _ in jobs.job_ids:
            if not room.takes(jobs.group):
                break
            usd = room.price_of(jobs.group, settings)
            if not inside:
                usd += offering.usd_per_second * offering.boot_seconds
            elif usd > jobs.new_usd:
                break
            room.put(jobs.group)
            inside.append((jobs, usd))
            paid += usd
            alone += jobs.new_usd
    if len(inside) < 2 or alone <= 0.0:
        return None
    return _Bundle(paid / alone, offering, tuple(inside))
