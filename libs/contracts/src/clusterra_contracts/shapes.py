"""The catalogue of worker shapes: what a worker has, what it costs, and what of it Slurm may hand out."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clusterra_contracts.identity import ShapeName, Wire

Family = Literal["compute", "general", "memory", "l4", "a10g", "a100", "h100"]
"""Machines without GPUs by their memory per vCPU, those with GPUs by the model of these."""
Size = Literal["xs", "small", "medium", "large", "xlarge"]


class WorkerSpec(Wire):
    """What a worker registers with Slurm: enough for an edge to start one without knowing the catalogue."""

    cpus: Annotated[int, Field(ge=1)]
    memory_mib: Annotated[int, Field(ge=1, description="Slurm's RealMemory, in MiB")]
    features: tuple[str, ...] = ()
    gres: str = ""


class Shape(Wire):
    """A kind of worker that can be bought: `name` is `<family>-<size>`; prices are US dollars per hour."""

    name: ShapeName
    family: Family
    size: Size
    vcpu: Annotated[int, Field(ge=1)]
    memory_gib: Annotated[float, Field(gt=0)]
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    real_memory_mib: Annotated[int, Field(ge=1)] | None = None
    """What of the memory Slurm may hand out: the machine's system, kubelet and daemons need the rest. None: all."""
    gpu_count: Annotated[int, Field(ge=0)] = 0
    gpu_model: Annotated[str, Field(pattern=r"^([a-z][a-z0-9]*)?$")] = ""
    """What jobs may ask for as the type of a GPU; empty exactly where there are none."""

    @model_validator(mode="after")
    def _gpus_have_a_model(self) -> Self:
        if (self.gpu_count > 0) != bool(self.gpu_model):
            raise ValueError(f"{self.name}: gpu_count and gpu_model go together")
        return self

    @property
    def memory_mib(self) -> int:
        """All the memory in MiB."""
        return int(self.memory_gib * 1024)

    @property
    def worker(self) -> WorkerSpec:
        """What a worker of this shape registers; its features let a job ask for the family or the shape."""
        return WorkerSpec(
            cpus=self.vcpu,
            memory_mib=self.memory_mib if self.real_memory_mib is None else self.real_memory_mib,
            features=(self.family, self.name),
            gres=f"gpu:{self.gpu_model}:{self.gpu_count}" if self.gpu_count else "",
        )


class Catalogue(Wire):
    """All shapes a cluster may use."""

    shapes: tuple[Shape, ...]

    def __getitem__(self, name: str) -> Shape:
        """The shape of this name. Raises KeyError."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(shape.name == name for shape in self.shapes)
