"""What jobs ask of a node and what shapes offer: CPUs, memory in GiB, GPUs."""

from dataclasses import dataclass

from clusterra_scaler.planner.estimates.remaining_time import Remaining

ROUNDING_GIB = 1e-9
"""By so much sums of fractions may be off."""


@dataclass(frozen=True, slots=True)
class Offering:
    """A shape that can be bought."""

    shape: str
    cpus: int
    memory_gib: float
    usd_per_second: float
    boot_seconds: float
    gpus: int = 0

    def usable(self, cpus: float, memory_gib: float, gpus: float) -> float:
        """What so much free room of a worker is worth, in USD per second.

        Its price times the smallest free share of what it has: 10 CPUs without memory serve nobody.
        """
        share = cpus / self.cpus
        memory = memory_gib / self.memory_gib
        if memory < share:
            share = memory
        if self.gpus and gpus / self.gpus < share:
            share = gpus / self.gpus
        return self.usd_per_second * share


@dataclass(frozen=True, slots=True)
class Group:
    """Equal jobs, each of which needs `nodes` nodes at once. All else is per node."""

    job_ids: tuple[str, ...]
    cpus: int
    memory_gib: float
    remaining: Remaining
    nodes: int = 1
    gpus: int = 0
    exclusive: bool = False
    """The node must be empty and is the job's alone."""
    shapes: frozenset[str] | None = None
    """The shapes it may run on. None: any."""
    owner: str = ""
    """Whose turn it is when not all can be served."""

    def runs_on(self, offering: Offering) -> bool:
        """Whether an empty worker of this shape would do."""
        return (
            self.cpus <= offering.cpus
            and self.memory_gib <= offering.memory_gib + ROUNDING_GIB
            and self.gpus <= offering.gpus
            and (self.shapes is None or offering.shape in self.shapes)
        )
