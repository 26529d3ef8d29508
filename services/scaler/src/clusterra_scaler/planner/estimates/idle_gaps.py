"""Workers without work, and how soon there was work again: what `keeping` learns from.

    idle -- there is work for it -----------------------------------> the gap has ended
    idle -- released -- wanted back, or bought anew -----------------> the gap has ended: it could have served
    idle -- released -- neither for as long as one may be kept ------> there was no work for it
    idle -- lost ---------------------------------------------------> there was no work for it so far

A released worker is followed as if it still stood: one that was released too early must be learned from, too. Moments
are in seconds, of any clock.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Annotated

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue
from pydantic import Field

from clusterra_scaler.planner.estimates.keep_alive import Gap, KeepAlive, Stakes
from clusterra_scaler.planner.requests import gres

FOLLOWED = 200
"""So many released workers are followed at the same time."""
DEARER = 2.0
"""Work goes to an idle worker that costs more than one of its own would, but not to one that costs this many times as
much."""


@dataclass(frozen=True, slots=True)
class IdleWorker:
    """A worker without work."""

    shape: ShapeName
    since: float
    keep_seconds: float
    """For how long it is kept, as it was chosen when it fell idle: so that no choice wavers."""


@dataclass(slots=True)
class IdleGaps:
    """Of one cluster. It is changed in place."""

    keep_alive: Annotated[KeepAlive, Field(alias="keeping")] = field(default_factory=KeepAlive)
    idle: dict[WorkerName, IdleWorker] = field(default_factory=dict)
    released: dict[WorkerName, IdleWorker] = field(default_factory=dict)
    """In the order of their release."""

    def copied(self) -> "IdleGaps":
        """Another one, to be changed."""
        return IdleGaps(self.keep_alive, dict(self.idle), dict(self.released))

    def fell_idle(self, name: WorkerName, shape: ShapeName, since: float, stakes: Stakes, at_most: float) -> None:
        """A worker has no work any more; it is kept for `at_most` seconds at most."""
        self.keep_alive, seconds = self.keep_alive.choose(shape, stakes, at_most)
        self.idle[name] = IdleWorker(shape, since, seconds)

    def wanted(self, name: WorkerName, at: float) -> None:
        """There is work for a worker; that is nothing new if it was neither idle nor released."""
        worker = self.idle.pop(name, None) or self.released.pop(name, None)
        if worker is not None:
            self._learn(worker, Gap(max(at - worker.since, 0.0), ended=True))

    def let_go(self, name: WorkerName) -> None:
        """An idle worker is released."""
        self.released[name] = self.idle.pop(name)
        if len(self.released) > FOLLOWED:
            oldest = self.released.pop(next(iter(self.released)))
            self._learn(oldest, Gap(oldest.keep_seconds, ended=False))

    def back(self, name: WorkerName) -> None:
        """A worker stands idle; one that was released does so as before, for its drain did not last."""
        if name in self.released:
            self.idle[name] = self.released.pop(name)

    def lost(self, name: WorkerName, at: float) -> None:
        """An idle worker is gone or no use, and was not released."""
        worker = self.idle.pop(name)
        self._learn(worker, Gap(max(at - worker.since, 0.0), ended=False))

    def bought(self, instead_of: Set[ShapeName], at: float) -> None:
        """A worker is bought for work of that moment, which one of these shapes could have served.

        Of several released the last counts: had it been kept, the others would still be no use.
        """
        missed = [
            (worker.since, name)
            for name, worker in self.released.items()
            if worker.shape in instead_of and worker.since + worker.keep_seconds <= at
        ]
        if missed:
            self.wanted(max(missed)[1], at)

    def follow(self, at: float, at_most: float) -> None:
        """Forget the released that had no work for `at_most` seconds: nobody would have kept them for longer."""
        for name in [name for name, worker in self.released.items() if at - worker.since > at_most]:
            self._learn(self.released.pop(name), Gap(at_most, ended=False))

    def _learn(self, worker: IdleWorker, gap: Gap) -> None:
        self.keep_alive = self.keep_alive.with_gap(worker.shape, gap)


def substitutes(catalogue: Catalogue) -> dict[ShapeName, frozenset[ShapeName]]:
    """By shape, those that could have served as well: with as much of everything, and not much dearer.

    Not one with GPUs for one without: it takes no jobs that ask for none.
    """
    specs = {shape.name: shape.worker for shape in catalogue.shapes}
    prices = {shape.name: shape.usd_per_hour for shape in catalogue.shapes}
    return {
        bought: frozenset(
            other
            for other, spec in specs.items()
            if other == bought
            or (
                spec.cpus >= needed.cpus
                and spec.memory_mib >= needed.memory_mib
                and bool(spec.gres) == bool(needed.gres)
                and gres.fits(gres.request_for(gres.parse_spec(needed.gres)), gres.parse_spec(spec.gres))
                and prices[other] < DEARER * prices[bought]
            )
        )
        for bought, needed in specs.items()
    }
