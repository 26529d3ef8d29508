"""A cluster's stored state: what was decided, and what was requested from its Slurm. It outlives a scaler process."""

from collections.abc import Mapping
from datetime import datetime

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.scale import DesiredState, ShapeTarget
from pydantic import Field

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.breakers import ShapeBreaker
from clusterra_scaler.planner.observed.request_breakers import RequestBreaker


class FleetState(Wire):
    """A cluster's stored state: its targets, and how far each scale-down has got."""

    generation: int = 0
    """Number of the last decision that changed the targets; 0 before the first."""
    fence: int = 0
    """The fencing token of the replica that wrote it."""
    snapshot_generation: int = 0
    """The generation of the snapshot that the last decision was made from."""
    decided_at: Moment
    targets: tuple[ShapeTarget, ...] = ()
    """A target for every shape that was ever wanted: the edge leaves a shape without a target alone."""
    ceilings: dict[ShapeName, int] = Field(default_factory=dict)
    """For each shape, the most workers that any desired state has asked for since the last one the edge applied."""
    drains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Our drains that Slurm has accepted, and when."""
    undrains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Undrains that may still reach Slurm because they have no certain answer, and when they were decided."""
    taken_back: dict[WorkerName, int] = Field(default_factory=dict)
    """Workers that are named for removal no longer, by the generation that took each back, until the edge has applied
    that generation: it may have removed them before. Until then no target counts them."""
    bookings: tuple[Booking, ...] = ()
    """The jobs that unregistered workers were bought for (policy `packing` only)."""
    moves: dict[WorkerName, Moment] = Field(default_factory=dict)
    """The drains that count against the drain budget: those of the last minute, and when each was first requested."""
    boot_p99_seconds: dict[ShapeName, float] = Field(default_factory=dict)
    """The 99th percentile of each shape's provisioning latency, as learned by the last decision."""
    breakers: tuple[ShapeBreaker, ...] = ()
    """At most one circuit breaker for each shape of the catalogue."""
    request_breakers: tuple[RequestBreaker, ...] = ()
    """The circuit breakers of requests that Slurm does not start."""
    keep_seconds: dict[ShapeName, float] = Field(default_factory=dict)
    """The keep-alive time of each shape's idle workers, as learned by the last decision."""

    @classmethod
    def initial(cls, at: datetime) -> "FleetState":
        """The state of a cluster before its first decision."""
        return cls(decided_at=at)

    def must_be_stored_after(self, recorded: "FleetState") -> bool:
        """Whether it must be stored before the scaler acts further, even if the targets are those of `recorded`.

        Moves that have left the drain budget need not be: by their times the next scaler finds that, too.
        """
        same = _must_be_stored(self) == _must_be_stored(recorded)
        return not same or not self.moves.items() <= recorded.moves.items()

    def target(self, shape: ShapeName) -> ShapeTarget | None:
        """The target of a shape."""
        return next((target for target in self.targets if target.shape == shape), None)

    @property
    def victims(self) -> frozenset[WorkerName]:
        """All workers that the edge may remove, and may have removed already."""
        return frozenset(name for target in self.targets for name in (*target.victims, *target.unregistered))

    def under_new_lease(self, fence: int, at: datetime) -> "FleetState":
        """The same targets as the next generation under a new lease."""
        return self.model_copy(update={"generation": self.generation + 1, "fence": fence, "decided_at": at})

    def with_taken_back(self, workers: Mapping[WorkerName, int]) -> "FleetState":
        """Name these workers for removal no longer. The numbers stay until the edge confirms that it has them."""
        if workers == self.taken_back:
            return self
        targets = tuple(
            target.model_copy(
                update={
                    "victims": tuple(name for name in target.victims if name not in workers),
                    "unregistered": tuple(name for name in target.unregistered if name not in workers),
                }
            )
            for target in self.targets
        )
        return self.model_copy(update={"targets": targets, "taken_back": dict(workers)})

    def with_drain(self, node: WorkerName, accepted_at: datetime) -> "FleetState":
        """Add a drain that Slurm has accepted."""
        return self.model_copy(update={"drains": {**self.drains, node: accepted_at}})

    def with_undrain_settled(self, node: WorkerName) -> "FleetState":
        """Drop an undrain that can no longer reach Slurm: it was answered, and no earlier one was left unanswered."""
        return self.model_copy(update={"undrains": {name: at for name, at in self.undrains.items() if name != node}})

    def desired(self) -> DesiredState:
        """The desired state that the edge receives."""
        return DesiredState(
            generation=self.generation,
            fence=self.fence,
            snapshot_generation=self.snapshot_generation,
            decided_at=self.decided_at,
            targets=self.targets,
        )


def _must_be_stored(state: FleetState) -> tuple[object, ...]:
    return state.drains, state.undrains, state.breakers, state.request_breakers
