"""Jobs whose turn has come at a bound, and the workers that make room for them.

Slurm starts later small jobs wherever something ends, so at a bound no place might ever come free for a job that no
worker there could hold. After a while the first such job claims what it needs: nobody else gets a worker from that,
and as few workers as will do take no more jobs and go, those that are idle or nearly so first. What can be bought for
jobs before it is theirs. There is one claim at a time. It follows from a look alone, and stays the same until the job
has its workers or one of higher priority claims.

Jobs that the workers there could hold are left to Slurm, which starts them in its own order. But where places are
scarce and money is not, such a job, too, claims the place of a worker that has a quarter of the CPUs that wait, or
less: a larger one takes it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from clusterra_contracts.identity import JobId, ShapeName, WorkerName

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.supply import Supply, drained_by_us
from clusterra_scaler.planner.packing.fair_share import Claim
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.limits import ROUNDING_USD
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.quota import QuotaHeadroom
from clusterra_scaler.planner.placement.warm_pool import warm_pool_of
from clusterra_scaler.planner.requests.demand import Demand

GROWTH = 4
"""So many times the CPUs of a worker must wait, before a larger one gets its place. With 2 small fleets lose more by
workers that stand half empty while they are drained than they gain."""


@dataclass(frozen=True, slots=True)
class CappedJob:
    """Equal jobs that get nothing because of the bounds."""

    demand: Demand
    job_id: JobId
    """Of the first."""
    count: int
    group: Group
    missing: int
    """For how many nodes of each there is none yet."""
    ahead: Counter[ShapeName]
    """What is bought in the same moment for jobs that come before it, or are its equals."""


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """A claim, and what is done for it."""

    claim: Claim
    workers: frozenset[WorkerName]
    """They take no more jobs, and go once theirs have ended."""
    soon: bool
    """Whether all of that will be free before a new worker could boot."""


def clearance(
    capped: Iterable[CappedJob],
    fleet_bins: Sequence[FleetBin],
    supply: Supply,
    observation: Observation,
    offers: Offers,
    is_soon_empty: Callable[[FleetBin], bool],
) -> HeadReservation | None:
    """That of the first job that may claim and for which enough workers can go; `rooms` are as they were at first.

    A job claims after the time of a boot, for which one that needs a new worker waits anyway. Nothing goes while jobs
    wait for a reservation: which workers it will have is not told, and its jobs can run nowhere else.
    """
    if any(group.reservation for group in observation.snapshot.pending or ()):
        return None
    offerings, left = offers.offerings, offers.headroom
    patience = timedelta(seconds=offers.boot_seconds)
    due = [each for each in capped if observation.now - each.demand.submitted_at >= patience]
    there = supply.standing + Counter(supply.ordered)
    by_shape = {each.shape: each for each in offerings}
    held_by_none = [
        each
        for each in due
        if sum(count for shape, count in there.items() if shape in by_shape and each.group.runs_on(by_shape[shape]))
        < each.demand.nodes
    ]
    candidates = [(each, list(_free_to_go(fleet_bins, supply))) for each in held_by_none]
    if left.usd_per_hour is None:
        most_cpus = max((each.cpus for each in offerings), default=0)
        waiting_cpus = min(most_cpus, sum(each.group.cpus * each.missing * each.count for each in due))
        small = [
            fleet_bin
            for fleet_bin in _free_to_go(fleet_bins, supply)
            if fleet_bin.bin.offering.cpus * GROWTH <= waiting_cpus
        ]
        candidates += [(each, small) for each in due]
    for each, may_go in candidates:
        for offering in offerings:
            if each.group.runs_on(offering):
                lack = _Lack.of(offering.shape, each.missing, left.after(each.ahead), supply.leaving)
                chosen = _chosen(each, lack, may_go, supply, observation)
                if chosen is not None:
                    return HeadReservation(
                        Claim(each.job_id, offering.shape),
                        frozenset(fleet_bin.place.worker for fleet_bin in chosen),
                        soon=all(map(is_soon_empty, chosen)),
                    )
    return None


@dataclass(slots=True)
class _Lack:
    """What there is too little of for some workers of a shape, once those are gone that go anyway."""

    places: int
    of_shape: int
    usd_per_hour: float
    shape: ShapeName
    prices: Mapping[ShapeName, float]

    @classmethod
    def of(cls, shape: ShapeName, count: int, left: QuotaHeadroom, leaving: Counter[ShapeName]) -> "_Lack":
        # What the edge was told to start and is not any more counts until it has obeyed.
        gone = leaving + left.reserved
        usd_per_hour = 0.0
        if left.usd_per_hour is not None:
            free = left.usd_per_hour + sum(left.prices.get(each, 0.0) * number for each, number in gone.items())
            usd_per_hour = count * left.prices.get(shape, 0.0) - free
        of_shape = count - left.of_shape[shape] - gone[shape] if shape in left.of_shape else 0
        return cls(count - left.anywhere - gone.total(), of_shape, usd_per_hour, shape, left.prices)

    @property
    def nothing(self) -> bool:
        return self.places <= 0 and self.of_shape <= 0 and self.usd_per_hour <= ROUNDING_USD

    def helps(self, shape: ShapeName) -> bool:
        """Whether one of this shape is to go."""
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
    job: CappedJob, lack: _Lack, may_go: Iterable[FleetBin], supply: Supply, observation: Observation
) -> list[FleetBin] | None:
    """The workers that go; None where not enough can."""
    spare = Counter(supply.standing)
    spare.subtract(warm_pool_of(observation))
    chosen: list[FleetBin] = []
    for fleet_bin in sorted(may_go, key=lambda fleet_bin: _cost_of_going(fleet_bin, job, supply)):
        if lack.nothing:
            break
        shape = fleet_bin.place.shape
        if spare[shape] > 0 and lack.helps(shape):
            spare[shape] -= 1
            lack.without(shape)
            chosen.append(fleet_bin)
    return chosen if lack.nothing else None


def _free_to_go(fleet_bins: Iterable[FleetBin], supply: Supply) -> Iterator[FleetBin]:
    """Workers that Slurm has, and on which nothing is booked."""
    for fleet_bin in fleet_bins:
        if fleet_bin.ready and fleet_bin.place.worker in supply.workers and fleet_bin.booking is None:
            yield fleet_bin


def _cost_of_going(fleet_bin: FleetBin, job: CappedJob, supply: Supply) -> tuple[object, ...]:
    """Idle ones first, then those that go already, that the job could not use, and that are empty the soonest."""
    goes = drained_by_us(supply.nodes[fleet_bin.place.worker]) or fleet_bin.place.kind == "draining"
    return (
        not fleet_bin.bin.empty,
        not goes,
        job.group.runs_on(fleet_bin.bin.offering),
        fleet_bin.bin.busy.mean_seconds,
        fleet_bin.place.worker,
    )
