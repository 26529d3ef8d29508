"""How long simulated workers are kept idle: for a fixed time, or for what the planner learns."""

from typing import Protocol

from clusterra_contracts.registry import ScalingPolicy
from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps, substitutes
from clusterra_scaler.planner.estimates.keep_alive import KeepAliveCosts

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.fleet import Worker

AT_MOST_SECONDS = ScalingPolicy().idle_seconds
"""The longest keep-alive time of a cluster whose policy sets none."""


class KeepAlivePolicy(Protocol):
    """Chooses keep-alive times and is informed of the workers' fate. Moments are in seconds of the trace's clock."""

    def fell_idle(self, worker: Worker) -> float:
        """The seconds from its `idle_since` for which an idle worker is kept."""

    def wanted(self, worker: Worker, at: float) -> None:
        """There is work for an idle worker."""

    def released(self, worker: Worker) -> None:
        """An idle worker is released."""

    def lost(self, worker: Worker, at: float) -> None:
        """An idle worker is lost."""

    def bought(self, worker: Worker, at: float) -> None:
        """A worker is bought for work that arrived at that moment."""


class FixedKeepAlive:
    """The same time for all workers. See KeepAlivePolicy."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def fell_idle(self, worker: Worker) -> float:
        """See KeepAlivePolicy."""
        return self._seconds

    def wanted(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""

    def released(self, worker: Worker) -> None:
        """See KeepAlivePolicy."""

    def lost(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""

    def bought(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""


class LearnedKeepAlive:
    """The times that the planner's `IdleGaps` learn from idle gaps. See KeepAlivePolicy."""

    def __init__(self, catalogue: Catalogue, at_most: float = AT_MOST_SECONDS) -> None:
        self._at_most = at_most
        self._instead_of = substitutes(catalogue.shapes)
        self._costs = {
            shape.name: KeepAliveCosts.of(shape.usd_per_hour, catalogue[shape.name].boot_seconds)
            for shape in catalogue.shapes.shapes
        }
        self._idle_gaps = IdleGaps()

    def fell_idle(self, worker: Worker) -> float:
        """See KeepAlivePolicy."""
        shape = worker.offering.shape
        self._idle_gaps.fell_idle(_name(worker), shape, worker.idle_since, self._costs[shape], self._at_most)
        return self._idle_gaps.idle[_name(worker)].keep_seconds

    def wanted(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""
        self._idle_gaps.work_arrived(_name(worker), at)

    def released(self, worker: Worker) -> None:
        """See KeepAlivePolicy."""
        self._idle_gaps.release(_name(worker))

    def lost(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""
        self._idle_gaps.lost(_name(worker), at)

    def bought(self, worker: Worker, at: float) -> None:
        """See KeepAlivePolicy."""
        self._idle_gaps.expire_followed(at, self._at_most)
        self._idle_gaps.bought(self._instead_of[worker.offering.shape], at)


def _name(worker: Worker) -> str:
    return str(worker.number)
