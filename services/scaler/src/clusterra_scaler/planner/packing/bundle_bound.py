"""How much a bundle can save at most, so that few of all that are possible need a look."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.assignment import Waiting
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering


@dataclass(frozen=True, slots=True)
class BundleBound:
    """Jobs that wait, by what they would cost alone."""

    usd: float
    """All of them together."""
    usd_per_cpu: float
    usd_per_gib: float
    """Of the dearest."""

    @classmethod
    def of(cls, waiting: Sequence[Waiting]) -> "BundleBound":
        """That of all these, of which there is one at least."""
        return cls(
            sum([jobs.new_usd * len(jobs.job_ids) for jobs in waiting]),
            max([jobs.new_usd / jobs.group.cpus for jobs in waiting]),
            max([jobs.new_usd / (jobs.group.memory_gib or ROUNDING_GIB) for jobs in waiting]),
        )

    def least_share(self, first: Waiting, offering: Offering, first_usd: float) -> float:
        """What jobs together on a worker cost at least, as a share of what each would cost on one of its own.

        The first of them costs `first_usd` there, and no other less than nothing.
        """
        beside = min(
            (offering.cpus - first.group.cpus) * self.usd_per_cpu,
            (offering.memory_gib - first.group.memory_gib + ROUNDING_GIB) * self.usd_per_gib,
            self.usd - first.new_usd,
        )
        alone = first.new_usd + beside
        return first_usd / alone if alone > 0.0 else 0.0
