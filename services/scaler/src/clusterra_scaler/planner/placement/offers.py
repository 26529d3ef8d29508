"""What may be bought for pending jobs, at which prices, and what each owner's running jobs cost already."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.packing.placement_predicate import wait_usd
from clusterra_scaler.planner.placement.job_groups import BOOT_SECONDS, fair_share_owner, offerings_of
from clusterra_scaler.planner.requests.job_costs import JobCosts


@dataclass(frozen=True, slots=True)
class Offers:
    """The catalogue, the quota headroom and the fair shares, as the packing needs them."""

    catalogue: Catalogue
    offerings: Sequence[Offering]
    """The shapes of the catalogue that may be bought, the cheapest first."""
    headroom: QuotaHeadroom
    usd_per_hour: Mapping[str, float]
    """The cost of each owner's running jobs."""
    boot_seconds: float
    """The shortest provisioning latency of an offering; 0 without offerings."""
    latency: ProvisioningLatency
    wait_usd_per_hour: float
    """The price of an hour that a job waits."""

    @classmethod
    def of(
        cls,
        observation: Observation,
        catalogue: Catalogue,
        headroom: QuotaHeadroom,
        latency: ProvisioningLatency,
        excluded_shapes: Collection[ShapeName],
    ) -> "Offers":
        """The offers of a catalogue without the shapes that no pending job may have."""
        offerings = [each for each in offerings_of(catalogue, latency) if each.shape not in excluded_shapes]
        costs = JobCosts(observation.snapshot, observation.binding)
        usd_per_hour: defaultdict[str, float] = defaultdict(float)
        for job in observation.snapshot.running or ():
            usd_per_hour[fair_share_owner(job.uid)] += costs.usd_per_hour(job)
        boot_seconds = min((each.boot_seconds for each in offerings), default=0.0)
        wait_usd_per_hour = observation.binding.policy.wait_usd_per_hour
        return cls(catalogue, offerings, headroom, usd_per_hour, boot_seconds, latency, wait_usd_per_hour)

    def wait_usd(self, shape: ShapeName) -> float:
        """The price of a job's wait for a new worker of this shape, which boots as long as is typical, in USD."""
        if not self.wait_usd_per_hour:
            return 0.0
        boot_seconds = self.latency.typical_seconds(shape)
        return wait_usd(self.wait_usd_per_hour, BOOT_SECONDS if boot_seconds is None else boot_seconds)
