"""The head-job reservation: workers are drained for a job that the quota leaves without one.

Slurm backfills small jobs wherever capacity becomes free. So at the quota a job that no existing worker can hold might
wait for ever. After one provisioning latency the first such job gets a reservation, as the head job does in EASY
backfill: the workers that it needs are bought for nobody else, and as few existing workers as possible are drained for
them, idle ones or nearly idle ones first. Jobs before it keep what can be bought for them. There is one reservation at
a time. It follows from the observation alone and stays the same until the job has its workers or a job of higher
priority gets the reservation.

Jobs that existing workers can hold are left to Slurm, which starts them in its own order. But where the number of
workers is bounded and their cost is not, such a job, too, may replace a worker that has a quarter of the waiting CPUs
or less by a larger one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from clusterra_contracts.identity import JobId, ShapeName, WorkerName

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.observed.supply import Supply, drained_by_us
from clusterra_scaler.planner.packing.fair_share import HeadJob
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.limits import ROUNDING_USD
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.warm_pool import warm_pool_of
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.time_limit import check

GROWTH = 4
"""The waiting CPUs must be this many times those of a worker before a larger worker replaces it. With 2, small fleets
lose more by workers that are half empty while they drain than they gain."""

MAX_TRIED = 50
"""The first jobs in the queue that are tried. Each attempt compares all workers."""


@dataclass(frozen=True, slots=True)
class CappedJob:
    """Equal jobs that get no worker because of the quota."""

    demand: Demand
    job_id: JobId
    """The id of the first job."""
    count: int
    group: Group
    missing: int
    """The number of nodes that each job still needs."""
    ahead: Counter[ShapeName]
    """Workers bought at the same time for jobs before these, or for their equals."""


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """The reservation and the workers that are drained for it."""

    job: HeadJob
    workers: frozenset[WorkerName]
    """Workers to drain. They take no more jobs and are removed once their jobs have ended."""
    soon: bool
    """Whether all of these will be empty before a new worker could register."""


def head_reservation(
    capped: Iterable[CappedJob],
    fleet_bins: Sequence[FleetBin],
    supply: Supply,
    observation: Observation,
    offers: Offers,
    is_soon_empty: Callable[[FleetBin], bool],
) -> HeadReservation | None:
    """The reservation of the first job that may have one and for which enough workers can be drained.

    `fleet_bins` are as they were before any job was assigned. A job must have waited for one provisioning latency, for
    which it would wait for a new worker anyway. There is no reservation while jobs wait for a reservation of Slurm's
    own: the snapshot does not tell its nodes, and its jobs can run nowhere else.
    """
    if any(group.reservation for group in observation.snapshot.pending or ()):
        return None
    offerings, left = offers.offerings, offers.headroom
    patience = timedelta(seconds=offers.boot_seconds)
    long_enough = (each for each in capped if observation.now - each.demand.submitted_at >= patience)
    due = list(islice(long_enough, MAX_TRIED))
    there = supply.active_by_shape + Counter(supply.ordered)
    by_shape = {each.shape: each for each in offerings}
    held_by_none = [
        each
        for each in due
        if sum(count for shape, count in there.items() if shape in by_shape and each.group.runs_on(by_shape[shape]))
        < each.demand.nodes
    ]
    candidates = [(each, list(_drainable(fleet_bins, supply))) for each in held_by_none]
    if left.usd_per_hour is None:
        most_cpus = max((each.cpus for each in offerings), default=0)
        waiting_cpus = min(most_cpus, sum(each.group.cpus * each.missing * each.count for each in due))
        small = [
            fleet_bin
            for fleet_bin in _drainable(fleet_bins, supply)
            if fleet_bin.bin.offering.cpus * GROWTH <= waiting_cpus
        ]
        candidates += [(each, small) for each in due]
    for each, candidates_to_drain in candidates:
        for offering in offerings:
            check()
            if each.group.runs_on(offering):
                shortage = _Shortage.of(offering.shape, each.missing, left.after(each.ahead), supply.leaving_by_shape)
                chosen = _chosen(each, shortage, candidates_to_drain, supply, observation)
                if chosen is not None:
                    return HeadReservation(
                        HeadJob(each.job_id, offering.shape),
                        frozenset(fleet_bin.place.worker for fleet_bin in chosen),
                        soon=all(map(is_soon_empty, chosen)),
                    )
    return None


@dataclass(slots=True)
class _Shortage:
    """What the quota lacks for some workers of a shape, once the workers that leave anyway are gone."""

    places: int
    of_shape: int
    usd_per_hour: float
    shape: ShapeName
    prices: Mapping[ShapeName, float]

    @classmethod
    def of(cls, shape: ShapeName, count: int, left: QuotaHeadroom, leaving: Counter[ShapeName]) -> "_Shortage":
        # Workers that an earlier desired state ordered count until the edge has acknowledged the smaller order.
        leaving_anyway = leaving + left.reserved
        usd_per_hour = 0.0
        if left.usd_per_hour is not None:
            free = left.usd_per_hour + sum(
                left.prices.get(each, 0.0) * number for each, number in leaving_anyway.items()
            )
            usd_per_hour = count * left.prices.get(shape, 0.0) - free
        of_shape = count - left.of_shape[shape] - leaving_anyway[shape] if shape in left.of_shape else 0
        return cls(count - left.anywhere - leaving_anyway.total(), of_shape, usd_per_hour, shape, left.prices)

    @property
    def covered(self) -> bool:
        return self.places <= 0 and self.of_shape <= 0 and self.usd_per_hour <= ROUNDING_USD

    def helps(self, shape: ShapeName) -> bool:
        """Whether draining a worker of this shape reduces the shortage."""
        return (
            self.places > 0
            or (self.of_shape > 0 and shape == self.shape)
            or (self.usd_per_hour > ROUNDING_USD and self.prices.get(shape, 0.0) > 0.0)
        )

    def without(self, shape: ShapeName) -> None:
        self.places -= 1
        self.of_shape -= shape == self.shape
        self.usd_per_hour -= self.prices.get(shape, 0.0)


def _chosen(
    job: CappedJob,
    shortage: _Shortage,
    candidates_to_drain: Iterable[FleetBin],
    supply: Supply,
    observation: Observation,
) -> list[FleetBin] | None:
    """The workers to drain; None if too few can be drained."""
    spare = Counter(supply.active_by_shape)
    spare.subtract(warm_pool_of(observation.binding))
    chosen: list[FleetBin] = []
    for fleet_bin in sorted(candidates_to_drain, key=lambda fleet_bin: _drain_cost(fleet_bin, job, supply)):
        if shortage.covered:
            break
        shape = fleet_bin.place.shape
        if spare[shape] > 0 and shortage.helps(shape):
            spare[shape] -= 1
            shortage.without(shape)
            chosen.append(fleet_bin)
    return chosen if shortage.covered else None


def _drainable(fleet_bins: Iterable[FleetBin], supply: Supply) -> Iterator[FleetBin]:
    """Registered workers without bookings."""
    for fleet_bin in fleet_bins:
        if fleet_bin.ready and fleet_bin.place.worker in supply.workers and fleet_bin.booking is None:
            yield fleet_bin


def _drain_cost(fleet_bin: FleetBin, job: CappedJob, supply: Supply) -> tuple[object, ...]:
    """Orders idle workers first, then draining ones, those the job cannot use, and those that are empty soonest."""
    draining = drained_by_us(supply.nodes[fleet_bin.place.worker]) or fleet_bin.place.kind == "draining"
    return (
        not fleet_bin.bin.empty,
        not draining,
        job.group.runs_on(fleet_bin.bin.offering),
        fleet_bin.bin.busy.mean_seconds,
        fleet_bin.place.worker,
    )
