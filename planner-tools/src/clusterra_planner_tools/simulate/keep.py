"""For how long simulated workers stay when they have nothing to do: a fixed time, or what the planner learns."""

from typing import Protocol

from clusterra_contracts.registry import ScalingPolicy
from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps, substitutes
from clusterra_scaler.planner.estimates.keep_alive import Stakes

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.fleet import Worker

AT_MOST_SECONDS = ScalingPolicy().idle_seconds
"""As a cluster has it that sets nothing."""


class Keep(Protocol):
    """Chooses, and is told what becomes of the workers. Moments are in seconds of the trace's clock."""

    def fell_idle(self, worker: Worker) -> float:
        """For how many seconds from its `idle_since` a worker is kept that has nothing to do."""

    def wanted(self, worker: Worker, at: float) -> None:
        """There is work for an idle worker."""

    def released(self, worker: Worker) -> None:
        """An idle worker is released."""

    def lost(self, worker: Worker, at: float) -> None:
        """An idle worker is lost."""

    def bought(self, worker: Worker, at: float) -> None:
        """A worker is bought for work that came at that moment."""


class FixedKeep:
    """The same time for all. See Keep."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def fell_idle(self, worker: Worker) -> float:
        """See Keep."""
        return self._seconds

    def wanted(self, worker: Worker, at: float) -> None:
        """See Keep."""

    def released(self, worker: Worker) -> None:
        """See Keep."""

    def lost(self, worker: Worker, at: float) -> None:
        """See Keep."""

    def bought(self, worker: Worker, at: float) -> None:
        """See Keep."""


class LearnedKeep:
    """By `planner.reuse`, and nothing of its own. See Keep."""

    def __init__(self, catalogue: Catalogue, at_most: float = AT_MOST_SECONDS) -> None:
        self._at_most = at_most
        self._instead_of = substitutes(catalogue.shapes)
        self._stakes = {
            shape.name: Stakes.of(shape.usd_per_hour, catalogue[shape.name].boot_seconds)
            for shape in catalogue.shapes.shapes
        }
        self._reuse = IdleGaps()

    def fell_idle(self, worker: Worker) -> float:
        """See Keep."""
        shape = worker.offering.shape
        self._reuse.fell_idle(_name(worker), shape, worker.idle_since, self._stakes[shape], self._at_most)
        return self._reuse.idle[_name(worker)].keep_seconds

    def wanted(self, worker: Worker, at: float) -> None:
        """See Keep."""
        self._reuse.wanted(_name(worker), at)

    def released(self, worker: Worker) -> None:
        """See Keep."""
        self._reuse.let_go(_name(worker))

    def lost(self, worker: Worker, at: float) -> None:
        """See Keep."""
        self._reuse.lost(_name(worker), at)

    def bought(self, worker: Worker, at: float) -> None:
        """See Keep."""
        self._reuse.follow(at, self._at_most)
        self._reuse.bought(self._instead_of[worker.offering.shape], at)


def _name(worker: Worker) -> str:
    return str(worker.number)
