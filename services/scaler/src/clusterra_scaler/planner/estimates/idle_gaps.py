"""Idle gaps: how long workers are without work. `keep_alive` learns from them.

    idle -- there is work for it -----------------------------> the gap has ended
    idle -- released -- wanted back, or bought again ---------> the gap has ended: the worker could have served
    idle -- released -- neither within the longest keep-alive -> the gap is censored: there was no work for it
    idle -- lost ---------------------------------------------> the gap is censored

A released worker is followed as if it still stood, because a release that was too early must be learned from, too.
Moments are in seconds of any one clock.
"""

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Annotated

from clusterra_contracts import gres
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue
from pydantic import Field

from clusterra_scaler.planner.estimates.keep_alive import Gap, KeepAlive, KeepAliveCosts

MAX_FOLLOWED = 200
"""Maximum number of released workers that are followed at the same time."""
UNREGISTERED_SECONDS = 5.0
"""The shortest time for which an unwanted worker that has not registered is kept, so that one incomplete list costs no
boot."""
SUBSTITUTE_PRICE_RATIO = 2.0
"""Slurm gives work to an idle worker that is dearer than one of its own would be; a worker this many times as dear is
no substitute."""


@dataclass(frozen=True, slots=True)
class IdleWorker:
    """A worker without work."""

    shape: ShapeName
    since: float
    """When it fell idle."""
    keep_seconds: float
    """Its keep-alive time. It is chosen once, when the worker falls idle, so that the choice is stable."""


@dataclass(slots=True)
class IdleGaps:
    """The idle and the released workers of one cluster. Changed in place."""

    keep_alive: Annotated[KeepAlive, Field(alias="keeping")] = field(default_factory=KeepAlive)
    idle: dict[WorkerName, IdleWorker] = field(default_factory=dict)
    released: dict[WorkerName, IdleWorker] = field(default_factory=dict)
    """In the order of their release."""

    def copy(self) -> "IdleGaps":
        """A copy that can be changed by itself."""
        return IdleGaps(self.keep_alive, dict(self.idle), dict(self.released))

    def fell_idle(
        self, name: WorkerName, shape: ShapeName, since: float, costs: KeepAliveCosts, at_most: float
    ) -> None:
        """Record that a worker has no work any more, and choose its keep-alive time of at most `at_most` seconds."""
        self.keep_alive, seconds = self.keep_alive.choose(shape, costs, at_most)
        self.idle[name] = IdleWorker(shape, since, seconds)

    def fell_idle_unregistered(
        self, name: WorkerName, shape: ShapeName, since: float, costs: KeepAliveCosts, at_most: float
    ) -> None:
        """Record that nothing wants a worker before it has registered. `costs`: of what is done of its boot.

        It is kept for no longer than that is worth: a worker that has just begun to boot is as soon bought again.
        """
        _, seconds = self.keep_alive.choose(shape, costs, at_most)
        kept = max(min(seconds, costs.break_even_seconds(at_most)), UNREGISTERED_SECONDS)
        self.idle[name] = IdleWorker(shape, since, kept)

    def registered(self, name: WorkerName, at: float) -> None:
        """Record that an idle worker has registered. Its keep-alive time goes on."""
        worker = self.idle[name]
        self.idle[name] = replace(worker, since=at, keep_seconds=max(worker.since + worker.keep_seconds - at, 0.0))

    def work_arrived(self, name: WorkerName, at: float) -> None:
        """Record that there is work for a worker. This changes nothing if it was neither idle nor released."""
        worker = self.idle.pop(name, None) or self.released.pop(name, None)
        if worker is not None:
            self._learn(worker, Gap(max(at - worker.since, 0.0), ended=True))

    def release(self, name: WorkerName) -> None:
        """Record that an idle worker is released."""
        self.released[name] = self.idle.pop(name)
        if len(self.released) > MAX_FOLLOWED:
            oldest = self.released.pop(next(iter(self.released)))
            self._learn(oldest, Gap(oldest.keep_seconds, ended=False))

    def reinstate(self, name: WorkerName) -> None:
        """Record that a worker is idle. A released one goes on being idle as before: its drain was cancelled."""
        if name in self.released:
            self.idle[name] = self.released.pop(name)

    def lost(self, name: WorkerName, at: float) -> None:
        """Record that an idle worker was lost, or became unusable, before it was released."""
        worker = self.idle.pop(name)
        self._learn(worker, Gap(max(at - worker.since, 0.0), ended=False))

    def bought(self, instead_of: Set[ShapeName], at: float) -> None:
        """Record that a worker is bought for new work that a worker of one of these shapes could have served.

        Of several released workers the last one counts: had it been kept, the others would still be idle.
        """
        missed = [
            (worker.since, name)
            for name, worker in self.released.items()
            if worker.shape in instead_of and worker.since + worker.keep_seconds <= at
        ]
        if missed:
            self.work_arrived(max(missed)[1], at)

    def expire_followed(self, at: float, at_most: float) -> None:
        """Drop released workers without work for `at_most` seconds: no worker would have been kept for longer."""
        for name in [name for name, worker in self.released.items() if at - worker.since > at_most]:
            self._learn(self.released.pop(name), Gap(at_most, ended=False))

    def _learn(self, worker: IdleWorker, gap: Gap) -> None:
        self.keep_alive = self.keep_alive.with_gap(worker.shape, gap)


def substitutes(catalogue: Catalogue) -> dict[ShapeName, frozenset[ShapeName]]:
    """By shape, the shapes that could have served instead: as large in every resource, and not much dearer.

    A shape with GPUs is no substitute for one without: it takes no jobs that request none.
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
                and prices[other] < SUBSTITUTE_PRICE_RATIO * prices[bought]
            )
        )
        for bought, needed in specs.items()
    }
