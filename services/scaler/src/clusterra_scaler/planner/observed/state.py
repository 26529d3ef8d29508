"""What was decided for a cluster, and what stands with its Slurm: the state that outlives a scaler."""

from collections.abc import Collection
from datetime import datetime

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.scale import DesiredState, ShapeTarget
from pydantic import Field

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.breakers import Breaker


class FleetState(Wire):
    """A cluster's durable state: what was decided, and what scaling down has got to."""

    generation: int = 0
    """Counts the decisions; 0 before the first."""
    fence: int = 0
    """The lease of the replica that wrote it."""
    snapshot_generation: int = 0
    decided_at: Moment
    targets: tuple[ShapeTarget, ...] = ()
    """Every shape that was ever wanted: one that is not listed would be left alone by the edge."""
    ceilings: dict[ShapeName, int] = Field(default_factory=dict)
    """The most workers of a shape that any desired state asked for since the last one the edge acknowledged."""
    drains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Our drains that Slurm accepted, and when."""
    undrains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Undrains that may still reach Slurm, and when they were decided: asked for, and not answered for certain."""
    bookings: tuple[Booking, ...] = ()
    """For which jobs workers were bought that come (`packing` alone)."""
    moves: dict[WorkerName, Moment] = Field(default_factory=dict)
    """The drains that were begun in the last minute before the latest of them, and when each was asked for first."""
    boot_p99_seconds: dict[ShapeName, float] = Field(default_factory=dict)
    """For how long nearly all workers of a shape boot, as far as it was known at the last decision."""
    breakers: tuple[Breaker, ...] = ()
    """One at most for each shape of the catalogue."""
    keep_seconds: dict[ShapeName, float] = Field(default_factory=dict)
    """For how long it pays to keep an idle worker of a shape, as far as it had been learned then."""

    @classmethod
    def undecided(cls, at: datetime) -> "FleetState":
        """The state of a cluster that nothing was decided for."""
        return cls(decided_at=at)

    @property
    def committed(
        self,
    ) -> tuple[dict[WorkerName, Moment], dict[WorkerName, Moment], dict[WorkerName, Moment], tuple[Breaker, ...]]:
        """What must be in the record before more is done: what stands with Slurm, and what may not be bought."""
        return (self.drains, self.undrains, self.moves, self.breakers)

    def target(self, shape: ShapeName) -> ShapeTarget | None:
        """What was decided for a shape."""
        return next((target for target in self.targets if target.shape == shape), None)

    @property
    def victims(self) -> frozenset[WorkerName]:
        """All workers that may be removed, and may be gone already."""
        return frozenset(name for target in self.targets for name in (*target.victims, *target.unregistered))

    def taken_over(self, fence: int, at: datetime) -> "FleetState":
        """The same wishes as decided by the holder of a new lease, told to the edge as a state of its own."""
        return self.model_copy(update={"generation": self.generation + 1, "fence": fence, "decided_at": at})

    def with_recovered(self, workers: Collection[WorkerName]) -> "FleetState":
        """With workers that were named as unregistered and stand again, beside those that were ordered meanwhile."""
        if not workers:
            return self
        return self.model_copy(update={"targets": tuple(_with_recovered(target, workers) for target in self.targets)})

    def drained(self, node: WorkerName, accepted_at: datetime) -> "FleetState":
        """With a drain that Slurm accepted."""
        return self.model_copy(update={"drains": {**self.drains, node: accepted_at}})

    def undrain_settled(self, node: WorkerName) -> "FleetState":
        """With an undrain that can reach Slurm no more: it was carried out or refused, and no earlier one was lost."""
        return self.model_copy(update={"undrains": {name: at for name, at in self.undrains.items() if name != node}})

    def desired(self) -> DesiredState:
        """What the edge is told."""
        return DesiredState(
            generation=self.generation,
            fence=self.fence,
            snapshot_generation=self.snapshot_generation,
            decided_at=self.decided_at,
            targets=self.targets,
        )


def _with_recovered(target: ShapeTarget, workers: Collection[WorkerName]) -> ShapeTarget:
    left = tuple(name for name in target.unregistered if name not in workers)
    back = len(target.unregistered) - len(left)
    return target.model_copy(update={"unregistered": left, "replicas": target.replicas + back})
