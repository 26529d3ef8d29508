"""What may be bought, for how much, and what owners have already."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.estimates.provisioning_latency import Boots
from clusterra_scaler.planner.observed.observation import Seen
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.placement.quota import Allowance
from clusterra_scaler.planner.placement.workloads import offerings_of, owner
from clusterra_scaler.planner.requests.job_costs import JobCosts


@dataclass(frozen=True, slots=True)
class Buyable:
    """As the packing finds it."""

    catalogue: Catalogue
    offerings: Sequence[Offering]
    """The shapes that may be bought of it, the cheapest first."""
    allowance: Allowance
    usd_per_hour: Mapping[str, float]
    """What the running jobs of each owner cost."""
    boot_seconds: float
    """How soon a new worker can be there; 0 where nothing is for sale."""

    @classmethod
    def of(
        cls, seen: Seen, catalogue: Catalogue, allowance: Allowance, boots: Boots, nobodys: Collection[ShapeName]
    ) -> "Buyable":
        """Shapes that are nobody's are not for sale."""
        offerings = [each for each in offerings_of(catalogue, boots) if each.shape not in nobodys]
        costs = JobCosts(seen.snapshot, seen.binding)
        usd_per_hour: defaultdict[str, float] = defaultdict(float)
        for job in seen.snapshot.running or ():
            usd_per_hour[owner(job.uid)] += costs.usd_per_hour(job)
        boot_seconds = min((each.boot_seconds for each in offerings), default=0.0)
        return cls(catalogue, offerings, allowance, usd_per_hour, boot_seconds)
