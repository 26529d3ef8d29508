"""The catalogue of worker shapes: a worker's resources, its price, and the part of it that Slurm may allocate."""

from functools import lru_cache
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from clusterra_contracts.identity import ShapeName, Wire

Family = Literal["compute", "general", "memory", "l4", "a10g", "a100", "h100"]
"""Machines without GPUs are grouped by memory per vCPU, machines with GPUs by model, the cheapest model first."""
Size = Literal["xs", "small", "medium", "large", "xlarge"]
Architecture = Literal["arm64", "amd64"]


class WorkerSpec(Wire):
    """What a worker registers with Slurm. An edge can start the worker from it without knowing the catalogue."""

    cpus: Annotated[int, Field(ge=1)]
    memory_mib: Annotated[int, Field(ge=1, description="Slurm's RealMemory, in MiB")]
    features: tuple[str, ...] = ()
    gres: str = ""
    weight: Annotated[int, Field(ge=1, description="Slurm's Weight: a job gets nodes of the lowest first")] = 1

    @property
    def architecture(self) -> Architecture:
        """The architecture of the machines that the catalogue's prices apply to."""
        return "amd64" if self.gres else "arm64"


class Shape(Wire):
    """A kind of worker that can be bought: `name` is `<family>-<size>`; prices are US dollars per hour."""

    name: ShapeName
    family: Family
    size: Size
    vcpu: Annotated[int, Field(ge=1)]
    memory_gib: Annotated[float, Field(gt=0)]
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    real_memory_mib: Annotated[int, Field(ge=1)] | None = None
    """The memory that Slurm may allocate; the operating system, kubelet and daemons need the rest. None: all of it."""
    gpu_count: Annotated[int, Field(ge=0)] = 0
    gpu_model: Annotated[str, Field(pattern=r"^([a-z][a-z0-9]*)?$")] = ""
    """The type of GPU that jobs may request; empty if and only if the shape has no GPUs."""

    @model_validator(mode="after")
    def _gpus_have_a_model(self) -> Self:
        if (self.gpu_count > 0) != bool(self.gpu_model):
            raise ValueError(f"{self.name}: gpu_count and gpu_model go together")
        return self

    @property
    def memory_mib(self) -> int:
        """The whole memory in MiB."""
        return int(self.memory_gib * 1024)

    @property
    def worker(self) -> WorkerSpec:
        """What a worker of this shape registers; its features let a job request the family or the shape."""
        memory_mib = self.memory_mib if self.real_memory_mib is None else self.real_memory_mib
        return _worker(self.vcpu, memory_mib, self.family, self.name, self.gpu_model, self.gpu_count)


class Catalogue(Wire):
    """All shapes that a cluster may use."""

    shapes: tuple[Shape, ...]

    def __getitem__(self, name: str) -> Shape:
        """The shape with this name. Raises KeyError."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(shape.name == name for shape in self.shapes)


@lru_cache(maxsize=1024)
def _worker(cpus: int, memory_mib: int, family: Family, name: ShapeName, gpu_model: str, gpu_count: int) -> WorkerSpec:
    """Cached, because one decision reads the workers of all shapes many times."""
    return WorkerSpec(
        cpus=cpus,
        memory_mib=memory_mib,
        features=(family, name),
        gres=f"gpu:{gpu_model}:{gpu_count}" if gpu_count else "",
        weight=_weight(family, gpu_count),
    )


def _weight(family: Family, gpu_count: int) -> int:
    """Slurm's default of 1 without GPUs; more with GPUs, and the same for all workers with GPUs of one model.

    Slurm uses up all nodes of one weight before it considers the next weight. If the weights of a model followed the
    prices, `--gpus=4` would get four GPUs on as many small workers instead of those of one large worker.
    """
    return 2 + get_args(Family).index(family) if gpu_count else 1
