"""What may be bought, for how much, and what owners have already."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.placement.workloads import offerings_of, owner
from clusterra_scaler.planner.requests.job_costs import JobCosts


@dataclass(frozen=True, slots=True)
class Offers:
    """As the packing finds it."""

    catalogue: Catalogue
    offerings: Sequence[Offering]
    """The shapes that may be bought of it, the cheapest first."""
    headroom: QuotaHeadroom
    usd_per_hour: Mapping[str, float]
    """What the running jobs of each owner cost."""
    boot_seconds: float
    """How soon a new worker can be there; 0 where nothing is for sale."""

    @classmethod
    def of(
        cls,
        observation: Observation,
        catalogue: Catalogue,
        headroom: QuotaHeadroom,
        latency: ProvisioningLatency,
        nobodys: Collection[ShapeName],
    ) -> "Offers":
        """Shapes that are nobody's are not for sale."""
        offerings = [each for each in offerings_of(catalogue, latency) if each.shape not in nobodys]
        costs = JobCosts(observation.snapshot, observation.binding)
        usd_per_hour: defaultdict[str, float] = defaultdict(float)
        for job in observation.snapshot.running or ():
            usd_per_hour[owner(job.uid)] += costs.usd_per_hour(job)
        boot_seconds = min((each.boot_seconds for each in offerings), default=0.0)
        return cls(catalogue, offerings, headroom, usd_per_hour, boot_seconds)
