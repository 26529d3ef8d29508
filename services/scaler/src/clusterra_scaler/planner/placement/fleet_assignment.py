"""Assigns pending jobs to the fleet: jobs that start now, and jobs that wait for coming or new workers."""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.packing.fair_share import Precedence
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import Packing, pack
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.fleet_capacity import FleetCapacity
from clusterra_scaler.planner.placement.head_reservation import CappedJob
from clusterra_scaler.planner.placement.job_groups import JobGroups, unbooked_job_ids
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.plan import AT_QUOTA, Place, Unmet
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes, NoShape
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.time_limit import check

BATCHING = "workers are bought for several jobs together in a moment"


@dataclass(slots=True)
class _Waiting:
    """Jobs of one demand that cannot start now."""

    demand: Demand
    job_ids: list[JobId]
    reserved: list[FleetBin] = field(default_factory=list)
    """Ready bins that each of the jobs keeps, while it waits for its other nodes."""
    group: Group | None = None
    """The jobs as a group for the packing, where it was made before."""
    placed: list[JobId] = field(default_factory=list)
    """Jobs that get all nodes that they still need."""

    @property
    def missing_nodes(self) -> int:
        return self.demand.nodes - len(self.reserved)


@dataclass(slots=True)
class NewWorker:
    """A worker to buy, and the shares of jobs that it is bought for."""

    place: Place
    position: int
    """The position of the first demand that it is bought for, in queue order."""
    jobs: dict[JobId, int] = field(default_factory=dict)

    def plan(self, job_id: JobId) -> None:
        """Plan one node's share of a job."""
        self.jobs[job_id] = self.jobs.get(job_id, 0) + 1


class FleetAssignment:
    """The fleet's bins as they fill up, and the workers that are bought."""

    def __init__(
        self,
        capacity: FleetCapacity,
        job_groups: JobGroups,
        observation: Observation,
        kept: Sequence[Booking],
    ) -> None:
        """`kept` are the valid bookings."""
        self.fleet_bins = capacity.fleet_bins
        self.new: dict[str, NewWorker] = {}
        self.held_bookings: list[Booking] = []
        """Bookings on ready workers, for jobs whose other workers come."""
        self.unmet: list[Unmet] = []
        self.places: dict[JobId, dict[Place, None]] = {}
        """By the first id of a demand, where its jobs are to run."""
        self.observation = observation
        self.capped: list[CappedJob] = []
        self._capacity = capacity
        self._job_groups = job_groups
        self._family_shapes = FamilyShapes(observation.binding.catalogue)
        self._booked_on: defaultdict[JobId, list[FleetBin]] = defaultdict(list)
        for fleet_bin in capacity.fleet_bins:
            for job_id in fleet_bin.booking.jobs if fleet_bin.booking else ():
                self._booked_on[job_id].append(fleet_bin)
        self._booked: Counter[JobId] = Counter()
        for each in kept:
            for job_id, shares in each.jobs.items():
                self._booked[job_id] += shares
        self._waiting: list[_Waiting] = []
        self._unaffordable: frozenset[JobId] = frozenset()

    def start(self, demand: Demand, *, batch_closed: bool) -> None:
        """Assign all jobs that Slurm can start now to ready bins; the others wait for `buy`.

        `batch_closed`: the demand's batching window is over. Before that no worker is bought for it.
        """
        check()
        for job_id in demand.job_ids:
            for fleet_bin in self._booked_on.get(job_id, ()):
                self._note(demand, fleet_bin.place)
        job_ids, nodes = unbooked_job_ids(demand, self._booked), demand.nodes
        if not job_ids:
            return
        group = self._job_groups.group(demand, job_ids, nodes)
        search = self._capacity.ready_for(demand, group)
        ready = list(islice(search, nodes))
        started = 0
        while started < len(job_ids) and len(ready) == nodes:
            for fleet_bin in ready:
                self._capacity.put(fleet_bin, group)
                self._plan(fleet_bin, job_ids[started], demand)
            started += 1
            ready = [fleet_bin for fleet_bin in ready if fleet_bin.bin.fits(group)]
            ready += islice(search, nodes - len(ready))
        del job_ids[:started]
        if nodes == 1:
            for fleet_bin in self._capacity.take_freeing(demand, group, len(job_ids)):
                self._plan(fleet_bin, job_ids.pop(0), demand)
        if not job_ids:
            return
        if not batch_closed:
            self.unmet.append(Unmet(demand, len(job_ids), BATCHING))
            return
        reserved = [fleet_bin for fleet_bin in ready if fleet_bin.place.shape]
        if reserved:
            # The last ready bins go to one job, which then needs fewer coming or new workers.
            self._waiting.append(_Waiting(demand, [job_ids.pop(0)], reserved))
            for fleet_bin in reserved:
                fleet_bin.bin.add(group)
        if job_ids:
            unchanged = len(job_ids) == len(group.job_ids)
            self._waiting.append(_Waiting(demand, job_ids, group=group if unchanged else None))

    def has_head_job(self, demand: Demand) -> bool:
        """Whether the head job is one of the demand's jobs."""
        return self._capacity.is_head(demand)

    def buy(self, offers: Offers) -> None:
        """Assign the waiting jobs to coming workers, and buy workers for the others."""
        if not self._waiting:
            return
        groups = [
            each.group or self._job_groups.group(each.demand, each.job_ids, each.missing_nodes)
            for each in self._waiting
        ]
        coming = {fleet_bin.id: fleet_bin for fleet_bin in self._capacity.coming_for(groups)}
        offerings, reservation = offers.offerings, self._capacity.reservation
        packing = pack(
            groups,
            [fleet_bin.bin for fleet_bin in coming.values()],
            offerings,
            Settings(),
            offers.headroom.limits([each.shape for each in offerings]),
            Precedence(offers.usd_per_hour, reservation.job if reservation else None),
        )
        self._unaffordable = frozenset(packing.unaffordable)
        self._apply(packing, {id(group): position for position, group in enumerate(groups)}, coming)
        self._settle_all(offers.catalogue)

    def _apply(self, packing: Packing, positions: Mapping[int, int], coming: Mapping[str, FleetBin]) -> None:
        """Record purchases and placements. `positions`: by a group's identity, the demand's position in queue order."""
        places = {shape: Place("new", "", shape) for shape in {each.offering.shape for each in packing.purchases}}
        self.new = {each.id: NewWorker(places[each.offering.shape], len(positions)) for each in packing.purchases}
        for group, job_id, bins, _ in packing.placements:
            position = positions[id(group)]
            waiting = self._waiting[position]
            waiting.placed.append(job_id)
            for bin_ in bins:
                new = self.new.get(bin_.id)
                if new is not None and position < new.position:
                    new.position = position
                chosen = new or coming[bin_.id]
                chosen.plan(job_id)
                self._note(waiting.demand, chosen.place)

    def _settle_all(self, catalogue: Catalogue) -> None:
        """Settle the demands in queue order."""
        ahead: Counter[ShapeName] = Counter()
        # Only jobs at a limit need the purchases before them, and there may be ten thousand purchases.
        new = deque(sorted(self.new.values(), key=attrgetter("position")) if self._unaffordable else ())
        for position, waiting in enumerate(self._waiting):
            while new and new[0].position <= position:
                ahead[new.popleft().place.shape] += 1
            if waiting.reserved or len(waiting.placed) < len(waiting.job_ids):
                self._settle(waiting, catalogue, ahead)

    def _settle(self, waiting: _Waiting, catalogue: Catalogue, ahead: Counter[ShapeName]) -> None:
        """Book the ready workers of jobs whose other workers come, and report the jobs that get none.

        `ahead` are the workers bought for jobs of this demand and of those before it.
        """
        check()
        unmet, capped = 0, list[JobId]()
        # Whatever else happens, bins only fill: where one job does not fit, its equals do not, either.
        group, fits = self._job_groups.group(waiting.demand, waiting.job_ids[:1], waiting.demand.nodes), True
        placed = Counter(waiting.placed)
        for job_id in waiting.job_ids:
            if placed[job_id] > 0:
                placed[job_id] -= 1
                for fleet_bin in waiting.reserved:
                    self._plan(fleet_bin, job_id, waiting.demand)
                    self.held_bookings.append(_booking(fleet_bin.place, job_id, self.observation))
            elif not (fits := fits and self._place_at_any_cost(waiting.demand, job_id, group)):
                unmet += 1
                if job_id in self._unaffordable:
                    capped.append(job_id)
        if capped:
            self.capped.append(
                CappedJob(waiting.demand, capped[0], len(capped), group, waiting.missing_nodes, Counter(ahead))
            )
            self._hold_for_head_job(waiting, capped[0])
        if unmet:
            (shape,) = self._family_shapes.choose([waiting.demand.parts[0].need], catalogue)
            reason = shape.reason if isinstance(shape, NoShape) else AT_QUOTA
            self.unmet.append(Unmet(waiting.demand, unmet, reason))

    def _hold_for_head_job(self, waiting: _Waiting, job_id: JobId) -> None:
        """Hold ready workers for the head job if its other workers can be bought soon.

        If they cannot, idle workers would cost more than holding them is worth.
        """
        reservation = self._capacity.reservation
        if reservation is not None and reservation.soon and reservation.job.job_id == job_id:
            for fleet_bin in waiting.reserved:
                self._plan(fleet_bin, job_id, waiting.demand)

    def _place_at_any_cost(self, demand: Demand, job_id: JobId, group: Group) -> bool:
        """Place a job that cannot have new workers on any others, whatever it costs there. False if it does not fit."""
        chosen = list(islice(self._capacity.any_for(demand, group), demand.nodes))
        if len(chosen) < demand.nodes:
            return False
        for fleet_bin in chosen:
            self._capacity.put(fleet_bin, group)
            self._plan(fleet_bin, job_id, demand)
            if fleet_bin.ready:
                self._capacity.admit(fleet_bin, demand)
                if fleet_bin.place.shape and not all(each.ready for each in chosen):
                    self.held_bookings.append(_booking(fleet_bin.place, job_id, self.observation))
        return True

    def _plan(self, fleet_bin: FleetBin, job_id: JobId, demand: Demand) -> None:
        fleet_bin.plan(job_id)
        self._note(demand, fleet_bin.place)

    def _note(self, demand: Demand, place: Place) -> None:
        self.places.setdefault(demand.job_ids[0], {})[place] = None


def _booking(place: Place, job_id: JobId, observation: Observation) -> Booking:
    return Booking(shape=place.shape, worker=place.worker or None, jobs={job_id: 1}, bought_at=observation.now)
