"""`scale.desired`: the workers a cluster should have. A full state with a generation and a fence."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.shapes import WorkerSpec


class ShapeTarget(Wire):
    """How many workers of one shape there should be, and which of today's may go."""

    shape: ShapeName
    worker: WorkerSpec
    replicas: Annotated[int, Field(ge=0)]
    """Workers that should stand once the victims are gone."""
    victims: tuple[WorkerName, ...] = ()
    """Exactly these may be removed: drained in Slurm and seen idle afterwards, or long unknown to Slurm."""
    unregistered: tuple[WorkerName, ...] = ()
    """These too, but only as long as their slurmd does not serve: they should have registered long ago, and may still.
    One that serves stands, and counts among the replicas. No other worker is ever removed."""


class DesiredState(Wire):
    """What the scaler decided. `targets=None` is "no opinion"; a shape that is not listed is left alone."""

    schema_name: ClassVar[str] = "scale.desired.v3"

    generation: Annotated[int, Field(ge=1)]
    fence: Annotated[int, Field(ge=0)]
    """The lease revision of the scaler that decided: one with a lower fence has lost its lease."""
    snapshot_generation: Annotated[int, Field(ge=0)]
    """The queue snapshot it was decided from."""
    decided_at: Moment
    targets: tuple[ShapeTarget, ...] | None

    @property
    def order(self) -> tuple[int, int]:
        """What decides which of two states is newer: the fence first, then the generation."""
        return (self.fence, self.generation)
