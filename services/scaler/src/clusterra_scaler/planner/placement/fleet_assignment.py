"""The rooms of a fleet as they fill up: with jobs that start now, that wait for what comes, and that are bought for."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter

from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Seen
from clusterra_scaler.planner.packing.bins import Room, with_room_for_any
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import Packing, pack
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.family_policy import FamilyPolicy, NoShape
from clusterra_scaler.planner.placement.fleet_bins import FleetRoom
from clusterra_scaler.planner.placement.head_reservation import Capped, Clearance
from clusterra_scaler.planner.placement.node_extra import Refusals
from clusterra_scaler.planner.placement.offers import Buyable
from clusterra_scaler.planner.placement.plan import Place, Unmet
from clusterra_scaler.planner.placement.workloads import Workloads, waiting_ids
from clusterra_scaler.planner.requests.demand import Demand

GATHERING = "workers are bought for several jobs together in a moment"
CAPPED = "the cluster has as many workers as it may have, or pay for"


@dataclass(slots=True)
class _Waiting:
    """Jobs of one demand that cannot start now. `held` are the rooms of each that are there; the others must come."""

    demand: Demand
    job_ids: list[JobId]
    held: list[FleetRoom] = field(default_factory=list)
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


class FleetFilling:
    """Rooms as they fill up, and what is bought meanwhile."""

    def __init__(
        self,
        rooms: Sequence[FleetRoom],
        workloads: Workloads,
        seen: Seen,
        kept: Sequence[Booking],
        refusals: Refusals,
        soon: Callable[[FleetRoom], Room],
        clearance: Clearance | None = None,
    ) -> None:
        """`soon` makes of a room what it is by the time at which a new worker would have booted."""
        self.rooms = rooms
        self.new: dict[str, NewWorker] = {}
        self.holds: list[Booking] = []
        self.unmet: list[Unmet] = []
        self.places: dict[JobId, dict[Place, None]] = {}
        self.seen = seen
        self._workloads = workloads
        self._refusals = refusals
        self._make_soon = soon
        self._clearance = clearance
        self.capped: list[Capped] = []
        self._freeing: list[FleetRoom] | None = None
        """Those that have room then; None before anybody asked."""
        self._ready = [room for room in rooms if room.ready and room.room.cpus >= 1]
        self._booked_on: defaultdict[JobId, list[FleetRoom]] = defaultdict(list)
        for room in rooms:
            for job_id in room.booking.jobs if room.booking else ():
                self._booked_on[job_id].append(room)
        self._booked: Counter[JobId] = Counter()
        for each in kept:
            for job_id, shares in each.jobs.items():
                self._booked[job_id] += shares
        self._waiting: list[_Waiting] = []
        self._unaffordable: frozenset[JobId] = frozenset()

    def start(self, demand: Demand, *, gathered: bool) -> None:
        """Put on what is ready all jobs that Slurm can start now; the others wait for what comes."""
        for job_id in demand.job_ids:
            for room in self._booked_on.get(job_id, ()):
                self._note(demand, room.place)
        job_ids, nodes = waiting_ids(demand, self._booked), demand.nodes
        if not job_ids:
            return
        group = self._workloads.group(demand, job_ids, nodes)
        usable = self._ready
        if self._clearance is not None:
            usable = [room for room in self._ready if self._may_use(room, demand)]
        refusing = self._refusals.by(demand)
        ready = [room for room in usable if room.room.takes(group) and room.place.worker not in refusing]
        while job_ids and len(ready) >= nodes:
            job_id, chosen = job_ids.pop(0), ready[:nodes]
            for room in chosen:
                self._put(room, group, job_id, demand)
            ready[:nodes] = [room for room in chosen if room.room.takes(group)]
        if nodes == 1:
            self._wait_for_room(demand, group, job_ids, refusing)
        if not job_ids:
            return
        if not gathered:
            self.unmet.append(Unmet(demand, len(job_ids), GATHERING))
            return
        held = [room for room in ready if room.place.shape]
        if held:
            # The last rooms that are there are for one job, which needs fewer that come.
            self._waiting.append(_Waiting(demand, [job_ids.pop(0)], held))
            for room in held:
                room.room.put(group)
        if job_ids:
            as_before = len(job_ids) == len(group.job_ids)
            self._waiting.append(_Waiting(demand, job_ids, group=group if as_before else None))

    def claims(self, demand: Demand) -> bool:
        """Whether a job of the demand has a claim."""
        return self._clearance is not None and self._clearance.claim.job_id in demand.job_ids

    def _may_use(self, room: FleetRoom, demand: Demand) -> bool:
        """What makes room for a job is for no other."""
        return self._clearance is None or room.place.worker not in self._clearance.workers or self.claims(demand)

    def _wait_for_room(
        self, demand: Demand, group: Group, job_ids: list[JobId], refusing: AbstractSet[WorkerName]
    ) -> None:
        """Let jobs wait for what ends before a new worker could have booted."""
        if not job_ids:
            return
        if self._freeing is None:
            cleared = self._clearance.workers if self._clearance else ()
            self._freeing = [
                room for room in self.rooms if room.place.kind == "node" and room.place.worker not in cleared
            ]
            for room in self._freeing:
                room.soon = self._make_soon(room)
        for room in self._freeing:
            soon = room.soon
            if room.place.worker in refusing:
                continue
            while job_ids and soon and soon.takes(group):
                soon.put(group)
                self._put(room, None, job_ids.pop(0), demand)
        self._freeing = [room for room in self._freeing if room.soon and room.soon.cpus >= 1]

    def buy(self, buyable: Buyable) -> None:
        """Place what waits on what comes, and buy what is missing."""
        if not self._waiting:
            return
        groups = [
            each.group or self._workloads.group(each.demand, each.job_ids, each.missing) for each in self._waiting
        ]
        coming = {room.id: room for room in self._coming_with_room_for_any(groups)}
        offerings = buyable.offerings
        packing = pack(
            groups,
            [room.room for room in coming.values()],
            offerings,
            Settings(),
            buyable.allowance.bounds([each.shape for each in offerings]),
            buyable.usd_per_hour,
            self._clearance.claim if self._clearance else None,
        )
        self._unaffordable = frozenset(packing.unaffordable)
        self._take(packing, {id(group): turn for turn, group in enumerate(groups)}, coming)
        self._settle_in_turn(buyable.catalogue)

    def _coming_with_room_for_any(self, groups: Sequence[Group]) -> list[FleetRoom]:
        coming = [room for room in self.rooms if not room.ready]
        # Many are given the same.
        like = set(map(id, with_room_for_any(groups, [room.like for room in coming])))
        return [room for room in coming if id(room.like) in like]

    def _take(self, packing: Packing, turns: Mapping[int, int], coming: Mapping[str, FleetRoom]) -> None:
        """Note what is bought and who goes where. `turns`: of each group, by its identity, in the order of demands."""
        places = {shape: Place("new", "", shape) for shape in {room.offering.shape for room in packing.purchases}}
        self.new = {room.id: NewWorker(places[room.offering.shape], len(turns)) for room in packing.purchases}
        for group, job_id, rooms, _ in packing.placements:
            turn = turns[id(group)]
            waiting = self._waiting[turn]
            waiting.placed.append(job_id)
            for room in rooms:
                new = self.new.get(room.id)
                if new is not None and turn < new.turn:
                    new.turn = turn
                chosen = new or coming[room.id]
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
                for room in waiting.held:
                    self._note(waiting.demand, room.place)
                    room.plan(job_id)
                    self.holds.append(_booking(room.place, job_id, self.seen))
            elif not self._make_do(waiting.demand, job_id):
                unmet += 1
                if job_id in self._unaffordable:
                    capped.append(job_id)
        if capped:
            group = self._workloads.group(waiting.demand, capped[:1], waiting.demand.nodes)
            self.capped.append(Capped(waiting.demand, capped[0], len(capped), group, waiting.missing, Counter(ahead)))
            self._keep_what_is_there(waiting, capped[0])
        if unmet:
            (shape,) = FamilyPolicy(self.seen.binding.catalogue).choose([waiting.demand.parts[0].need], catalogue)
            reason = shape.reason if isinstance(shape, NoShape) else CAPPED
            self.unmet.append(Unmet(waiting.demand, unmet, reason))

    def _keep_what_is_there(self, waiting: _Waiting, job_id: JobId) -> None:
        """For a job whose other workers can be bought in a moment; else what is there costs more than it is worth."""
        if self._clearance is not None and self._clearance.soon and self._clearance.claim.job_id == job_id:
            for room in waiting.held:
                self._put(room, None, job_id, waiting.demand)

    def _make_do(self, demand: Demand, job_id: JobId) -> bool:
        """Let a job that cannot have new workers have any others, whatever it costs there; whether there is room."""
        group = self._workloads.group(demand, (job_id,), demand.nodes)
        rooms = [
            room
            for room in self.rooms
            if room.room.takes(group) and (room.ready or room.place.shape) and self._may_use(room, demand)
        ]
        if len(rooms) < demand.nodes:
            return False
        chosen = rooms[: demand.nodes]
        for room in chosen:
            self._put(room, group, job_id, demand)
            if room.ready:
                self._refusals.let_in(room, demand)
                if room.place.shape and not all(each.ready for each in chosen):
                    self.holds.append(_booking(room.place, job_id, self.seen))
        return True

    def _put(self, room: FleetRoom, group: Group | None, job_id: JobId, demand: Demand) -> None:
        if group is not None:
            room.room.put(group)
            if room.soon is not None:
                room.soon.put(group)
            if room.room.cpus < 1 and room in self._ready:
                self._ready.remove(room)
        room.plan(job_id)
        self._note(demand, room.place)

    def _note(self, demand: Demand, place: Place) -> None:
        self.places.setdefault(demand.job_ids[0], {})[place] = None


def _booking(place: Place, job_id: JobId, seen: Seen) -> Booking:
    return Booking(shape=place.shape, worker=place.worker or None, jobs={job_id: 1}, bought_at=seen.now)
