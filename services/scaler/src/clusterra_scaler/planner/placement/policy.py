"""What a scaling policy is asked, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.queue import NodeState
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.requests.demand import Demand


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The pending jobs to place, and the workers and shapes that may be used for them.

    Failover asks a policy more than once, each time with a part of the supply and of the catalogue.
    """

    context: DecisionContext
    demands: Sequence[Demand]
    supply: Supply
    """Workers that exist or are ordered."""
    catalogue: Catalogue
    """Shapes that may be bought."""
    headroom: QuotaHeadroom


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the jobs go, and what is bought for them."""

    plan: Plan
    bookings: tuple[Booking, ...]
    """All bookings that hold once the plan is carried out."""
    extras: Mapping[WorkerName, str]
    """The Extra of nodes that must have a new one."""


class Policy(Protocol):
    """A scaling policy."""

    def plan(self, request: PlacementRequest) -> Placement:
        """Places the jobs of the request."""
        ...

    def keep_alive(self, node: NodeState, context: DecisionContext) -> tuple[float, float]:
        """For how many seconds a node that answers has been idle, and after how many it is released."""
        ...

    def keep_unregistered(self, name: WorkerName, context: DecisionContext) -> float | None:
        """For how many seconds a worker boots on that nothing wants; None: until it is overdue."""
        ...
