"""`scale.desired`: the workers a cluster should have. A full state with a generation and a fence."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.shapes import WorkerSpec


class ShapeTarget(Wire):
    """The desired number of workers of one shape, and which workers may be removed."""

    shape: ShapeName
    worker: WorkerSpec
    replicas: Annotated[int, Field(ge=0)]
    """The number of workers after the victims are removed."""
    victims: tuple[WorkerName, ...] = ()
    """The workers to remove: they were drained in Slurm and observed idle afterwards, or have been unknown to Slurm for
    long."""
    unregistered: tuple[WorkerName, ...] = ()
    """Workers that should have registered long ago. They are removed too, unless their slurmd serves meanwhile: then
    the worker stays and counts as a replica. No other worker is ever removed."""


class DesiredState(Wire):
    """What the scaler decided. `targets=None` means "no opinion"; a shape that is not listed is left unchanged."""

    schema_name: ClassVar[str] = "scale.desired.v3"

    generation: Annotated[int, Field(ge=1)]
    fence: Annotated[int, Field(ge=0)]
    """The fencing token of the scaler's lease. A scaler with a lower fence has lost its lease."""
    snapshot_generation: Annotated[int, Field(ge=0)]
    """The generation of the queue snapshot that the decision was made from."""
    decided_at: Moment
    targets: tuple[ShapeTarget, ...] | None

    @property
    def order(self) -> tuple[int, int]:
        """The key that orders desired states from old to new: the fence first, then the generation."""
        return (self.fence, self.generation)
