"""The rooms of a fleet as they fill up: with jobs that start now, that wait for what comes, and that are bought for."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter

from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.packing.bins import Bin, with_room_for_any
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import Packing, pack
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.fleet_bins import FleetBin
from clusterra_scaler.planner.placement.head_reservation import CappedJob, HeadReservation
from clusterra_scaler.planner.placement.node_extra import ClosedNodes
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.plan import Place, Unmet
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes, NoShape
from clusterra_scaler.planner.placement.workloads import Workloads, waiting_ids
from clusterra_scaler.planner.requests.demand import Demand

GATHERING = "workers are bought for several jobs together in a moment"
CAPPED = "the cluster has as many workers as it may have, or pay for"


@dataclass(slots=True)
class _Waiting:
    """Jobs of one demand that cannot start now. `held` are the rooms of each that are there; the others must come."""

    demand: Demand
    job_ids: list[JobId]
    held: list[FleetBin] = field(default_factory=list)
    group: Group | None = None
    """The same for the packing, where it has been made."""
    placed: list[JobId] = field(default_factory=list)
    """Those that get all that is missing."""

    @property
    def missing(self) -> int:
        return self.demand.nodes - len(self.held)


@dataclass(slots=True)
class NewWorker:
    """A worker to buy, and the shares of jobs that it is bought for."""

    place: Place
    turn: int
    """Of the first demand that it is bought for, in their order."""
    jobs: dict[JobId, int] = field(default_factory=dict)

    def plan(self, job_id: JobId) -> None:
        """Plan one share of a job."""
        self.jobs[job_id] = self.jobs.get(job_id, 0) + 1


class FleetAssignment:
    """Rooms as they fill up, and what is bought meanwhile."""

    def __init__(
        self,
        fleet_bins: Sequence[FleetBin],
        workloads: Workloads,
        observation: Observation,
        kept: Sequence[Booking],
        closed_nodes: ClosedNodes,
        soon: Callable[[FleetBin], Bin],
        clearance: HeadReservation | None = None,
    ) -> None:
        """`soon` makes of a room what it is by the time at which a new worker would have booted."""
        self.fleet_bins = fleet_bins
        self.new: dict[str, NewWorker] = {}
        self.holds: list[Booking] = []
        self.unmet: list[Unmet] = []
        self.places: dict[JobId, dict[Place, None]] = {}
        self.observation = observation
        self._workloads = workloads
        self._refusals = closed_nodes
        self._make_soon = soon
        self._clearance = clearance
        self.capped: list[CappedJob] = []
        self._freeing: list[FleetBin] | None = None
        """Those that have room then; None before anybody asked."""
        self._ready = [fleet_bin for fleet_bin in fleet_bins if fleet_bin.ready and fleet_bin.bin.cpus >= 1]
        self._booked_on: defaultdict[JobId, list[FleetBin]] = defaultdict(list)
        for fleet_bin in fleet_bins:
            for job_id in fleet_bin.booking.jobs if fleet_bin.booking else ():
                self._booked_on[job_id].append(fleet_bin)
        self._booked: Counter[JobId] = Counter()
        for each in kept:
            for job_id, shares in each.jobs.items():
                self._booked[job_id] += shares
        self._waiting: list[_Waiting] = []
        self._unaffordable: frozenset[JobId] = frozenset()

    def start(self, demand: Demand, *, gathered: bool) -> None:
        """Put on what is ready all jobs that Slurm can start now; the others wait for what comes."""
        for job_id in demand.job_ids:
            for fleet_bin in self._booked_on.get(job_id, ()):
                self._note(demand, fleet_bin.place)
        job_ids, nodes = waiting_ids(demand, self._booked), demand.nodes
        if not job_ids:
            return
        group = self._workloads.group(demand, job_ids, nodes)
        usable = self._ready
        if self._clearance is not None:
            usable = [fleet_bin for fleet_bin in self._ready if self._may_use(fleet_bin, demand)]
        refusing = self._refusals.closed_to(demand)
        ready = [
            fleet_bin for fleet_bin in usable if fleet_bin.bin.takes(group) and fleet_bin.place.worker not in refusing
        ]
        while job_ids and len(ready) >= nodes:
            job_id, chosen = job_ids.pop(0), ready[:nodes]
            for fleet_bin in chosen:
                self._put(fleet_bin, group, job_id, demand)
            ready[:nodes] = [fleet_bin for fleet_bin in chosen if fleet_bin.bin.takes(group)]
        if nodes == 1:
            self._wait_for_room(demand, group, job_ids, refusing)
        if not job_ids:
            return
        if not gathered:
            self.unmet.append(Unmet(demand, len(job_ids), GATHERING))
            return
        held = [fleet_bin for fleet_bin in ready if fleet_bin.place.shape]
        if held:
            # The last rooms that are there are for one job, which needs fewer that come.
            self._waiting.append(_Waiting(demand, [job_ids.pop(0)], held))
            for fleet_bin in held:
                fleet_bin.bin.put(group)
        if job_ids:
            as_before = len(job_ids) == len(group.job_ids)
            self._waiting.append(_Waiting(demand, job_ids, group=group if as_before else None))

    def claims(self, demand: Demand) -> bool:
        """Whether a job of the demand has a claim."""
        return self._clearance is not None and self._clearance.claim.job_id in demand.job_ids

    def _may_use(self, fleet_bin: FleetBin, demand: Demand) -> bool:
        """What makes room for a job is for no other."""
        return self._clearance is None or fleet_bin.place.worker not in self._clearance.workers or self.claims(demand)

    def _wait_for_room(
        self, demand: Demand, group: Group, job_ids: list[JobId], refusing: AbstractSet[WorkerName]
    ) -> None:
        """Let jobs wait for what ends before a new worker could have booted."""
        if not job_ids:
            return
        if self._freeing is None:
            cleared = self._clearance.workers if self._clearance else ()
            self._freeing = [
                fleet_bin
                for fleet_bin in self.fleet_bins
                if fleet_bin.place.kind == "node" and fleet_bin.place.worker not in cleared
            ]
            for fleet_bin in self._freeing:
                fleet_bin.soon = self._make_soon(fleet_bin)
        for fleet_bin in self._freeing:
            soon = fleet_bin.soon
            if fleet_bin.place.worker in refusing:
                continue
            while job_ids and soon and soon.takes(group):
                soon.put(group)
                self._put(fleet_bin, None, job_ids.pop(0), demand)
        self._freeing = [fleet_bin for fleet_bin in self._freeing if fleet_bin.soon and fleet_bin.soon.cpus >= 1]

    def buy(self, offers: Offers) -> None:
        """Place what waits on what comes, and buy what is missing."""
        if not self._waiting:
            return
        groups = [
            each.group or self._workloads.group(each.demand, each.job_ids, each.missing) for each in self._waiting
        ]
        coming = {fleet_bin.id: fleet_bin for fleet_bin in self._coming_with_room_for_any(groups)}
        offerings = offers.offerings
        packing = pack(
            groups,
            [fleet_bin.bin for fleet_bin in coming.values()],
            offerings,
            Settings(),
            offers.headroom.limits([each.shape for each in offerings]),
            offers.usd_per_hour,
            self._clearance.claim if self._clearance else None,
        )
        self._unaffordable = frozenset(packing.unaffordable)
        self._take(packing, {id(group): turn for turn, group in enumerate(groups)}, coming)
        self._settle_in_turn(offers.catalogue)

    def _coming_with_room_for_any(self, groups: Sequence[Group]) -> list[FleetBin]:
        coming = [fleet_bin for fleet_bin in self.fleet_bins if not fleet_bin.ready]
        # Many are given the same.
        like = set(map(id, with_room_for_any(groups, [fleet_bin.like for fleet_bin in coming])))
        return [fleet_bin for fleet_bin in coming if id(fleet_bin.like) in like]

    def _take(self, packing: Packing, turns: Mapping[int, int], coming: Mapping[str, FleetBin]) -> None:
        """Note what is bought and who goes where. `turns`: of each group, by its identity, in the order of demands."""
        places = {
            shape: Place("new", "", shape) for shape in {fleet_bin.offering.shape for fleet_bin in packing.purchases}
        }
        self.new = {
            fleet_bin.id: NewWorker(places[fleet_bin.offering.shape], len(turns)) for fleet_bin in packing.purchases
        }
        for group, job_id, fleet_bins, _ in packing.placements:
            turn = turns[id(group)]
            waiting = self._waiting[turn]
            waiting.placed.append(job_id)
            for fleet_bin in fleet_bins:
                new = self.new.get(fleet_bin.id)
                if new is not None and turn < new.turn:
                    new.turn = turn
                chosen = new or coming[fleet_bin.id]
                chosen.plan(job_id)
                self._note(waiting.demand, chosen.place)

    def _settle_in_turn(self, catalogue: Catalogue) -> None:
        ahead: Counter[ShapeName] = Counter()
        # Nobody asks what is ahead of whom where nothing binds, and there may be ten thousand.
        new = deque(sorted(self.new.values(), key=attrgetter("turn")) if self._unaffordable else ())
        for turn, waiting in enumerate(self._waiting):
            while new and new[0].turn <= turn:
                ahead[new.popleft().place.shape] += 1
            if waiting.held or len(waiting.placed) < len(waiting.job_ids):
                self._settle(waiting, catalogue, ahead)

    def _settle(self, waiting: _Waiting, catalogue: Catalogue, ahead: Counter[ShapeName]) -> None:
        """Book what is held for a job whose other workers come, and tell of jobs that get none.

        `ahead` are the workers bought for jobs of this demand and those before it.
        """
        unmet, capped = 0, list[JobId]()
        placed = Counter(waiting.placed)
        for job_id in waiting.job_ids:
            if placed[job_id] > 0:
                placed[job_id] -= 1
                for fleet_bin in waiting.held:
                    self._note(waiting.demand, fleet_bin.place)
                    fleet_bin.plan(job_id)
                    self.holds.append(_booking(fleet_bin.place, job_id, self.observation))
            elif not self._make_do(waiting.demand, job_id):
                unmet += 1
                if job_id in self._unaffordable:
                    capped.append(job_id)
        if capped:
            group = self._workloads.group(waiting.demand, capped[:1], waiting.demand.nodes)
            self.capped.append(
                CappedJob(waiting.demand, capped[0], len(capped), group, waiting.missing, Counter(ahead))
            )
            self._keep_what_is_there(waiting, capped[0])
        if unmet:
            (shape,) = FamilyShapes(self.observation.binding.catalogue).choose(
                [waiting.demand.parts[0].need], catalogue
            )
            reason = shape.reason if isinstance(shape, NoShape) else CAPPED
            self.unmet.append(Unmet(waiting.demand, unmet, reason))

    def _keep_what_is_there(self, waiting: _Waiting, job_id: JobId) -> None:
        """For a job whose other workers can be bought in a moment; else what is there costs more than it is worth."""
        if self._clearance is not None and self._clearance.soon and self._clearance.claim.job_id == job_id:
            for fleet_bin in waiting.held:
                self._put(fleet_bin, None, job_id, waiting.demand)

    def _make_do(self, demand: Demand, job_id: JobId) -> bool:
        """Let a job that cannot have new workers have any others, whatever it costs there; whether there is room."""
        group = self._workloads.group(demand, (job_id,), demand.nodes)
        fleet_bins = [
            fleet_bin
            for fleet_bin in self.fleet_bins
            if fleet_bin.bin.takes(group)
            and (fleet_bin.ready or fleet_bin.place.shape)
            and self._may_use(fleet_bin, demand)
        ]
        if len(fleet_bins) < demand.nodes:
            return False
        chosen = fleet_bins[: demand.nodes]
        for fleet_bin in chosen:
            self._put(fleet_bin, group, job_id, demand)
            if fleet_bin.ready:
                self._refusals.admit(fleet_bin, demand)
                if fleet_bin.place.shape and not all(each.ready for each in chosen):
                    self.holds.append(_booking(fleet_bin.place, job_id, self.observation))
        return True

    def _put(self, fleet_bin: FleetBin, group: Group | None, job_id: JobId, demand: Demand) -> None:
        if group is not None:
            fleet_bin.bin.put(group)
            if fleet_bin.soon is not None:
                fleet_bin.soon.put(group)
            if fleet_bin.bin.cpus < 1 and fleet_bin in self._ready:
                self._ready.remove(fleet_bin)
        fleet_bin.plan(job_id)
        self._note(demand, fleet_bin.place)

    def _note(self, demand: Demand, place: Place) -> None:
        self.places.setdefault(demand.job_ids[0], {})[place] = None


def _booking(place: Place, job_id: JobId, observation: Observation) -> Booking:
    return Booking(shape=place.shape, worker=place.worker or None, jobs={job_id: 1}, bought_at=observation.now)
