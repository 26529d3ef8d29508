"""The items and the bin sizes of the packing: what jobs request of a node and what shapes offer.

Both are vectors of CPUs, memory in GiB and GPUs.
"""

from dataclasses import dataclass

from clusterra_scaler.planner.estimates.remaining_time import Remaining

ROUNDING_GIB = 1e-9
"""Tolerance of comparisons between sums of fractions."""


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
        """The value of a worker's usable free capacity, in USD per second.

        It is the worker's price times the smallest free share of its resources: 10 free CPUs without free memory are
        of no use to any job.
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
    """Equal jobs, each of which needs `nodes` nodes at once. All resources are per node."""

    job_ids: tuple[str, ...]
    cpus: int
    memory_gib: float
    remaining: Remaining
    nodes: int = 1
    gpus: int = 0
    exclusive: bool = False
    """The node must be empty and runs nothing besides the job."""
    shapes: frozenset[str] | None = None
    """The shapes that the job may run on; None for any shape."""
    owner: str = ""
    """The job's owner in the fair share, where the limits do not let all jobs be served."""

    def runs_on(self, offering: Offering) -> bool:
        """Whether one node's share of a job fits an empty worker of this shape."""
        return (
            self.cpus <= offering.cpus
            and self.memory_gib <= offering.memory_gib + ROUNDING_GIB
            and self.gpus <= offering.gpus
            and (self.shapes is None or offering.shape in self.shapes)
        )
