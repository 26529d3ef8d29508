"""A lower bound on the cost of a bundle of jobs, so that the search tries few of the possible bundles."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_scaler.planner.packing.assignment import Waiting
from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering


@dataclass(frozen=True, slots=True)
class BundleBound:
    """Totals over waiting jobs, each by what it would cost on a worker of its own."""

    usd: float
    """All jobs together."""
    usd_per_cpu: float
    """Of the job that is dearest per CPU."""
    usd_per_gib: float
    """Of the job that is dearest per GiB."""

    @classmethod
    def of(cls, waiting: Sequence[Waiting]) -> "BundleBound":
        """Totals over a non-empty list of waiting jobs."""
        return cls(
            sum([jobs.new_usd * len(jobs.job_ids) for jobs in waiting]),
            max([jobs.new_usd / jobs.group.cpus for jobs in waiting]),
            max([jobs.new_usd / (jobs.group.memory_gib or ROUNDING_GIB) for jobs in waiting]),
        )

    def least_share(self, first: Waiting, offering: Offering, first_usd: float) -> float:
        """Lower bound on what a bundle costs, as a share of what its jobs cost on workers of their own.

        The first job costs `first_usd` on the offering, and no other job costs less than nothing there. So the share is
        at least `first_usd` over the most that jobs which fit beside the first could cost alone: the free CPUs at the
        dearest price per CPU, the free memory at the dearest price per GiB, or all other jobs, whichever is least.
        """
        others_usd = min(
            (offering.cpus - first.group.cpus) * self.usd_per_cpu,
            (offering.memory_gib - first.group.memory_gib + ROUNDING_GIB) * self.usd_per_gib,
            self.usd - first.new_usd,
        )
        alone = first.new_usd + others_usd
        return first_usd / alone if alone > 0.0 else 0.0
