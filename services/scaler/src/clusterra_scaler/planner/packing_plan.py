"""The policy `packing`: what pending jobs will use of what is there, and what is bought for the others.

What Slurm can start now it will start; that is no matter of ours. Jobs that are booked keep their room. The others go
onto coming workers, or onto new ones, where they are expected to add the fewest dollars (see `packing`). Jobs with
wishes that the packing does not know are served before, by first fit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice

from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.shapes import Catalogue, WorkerSpec

from clusterra_scaler.planner.allowance import Allowance
from clusterra_scaler.planner.booking import Booking
from clusterra_scaler.planner.bookings import standing
from clusterra_scaler.planner.boots import Boots
from clusterra_scaler.planner.demand import Demand
from clusterra_scaler.planner.first_fit import FirstFit, first_fit
from clusterra_scaler.planner.fleet_rooms import FleetRoom, FleetRooms, foreign
from clusterra_scaler.planner.packing.packing import pack
from clusterra_scaler.planner.packing.rooms import Room
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group, Offering
from clusterra_scaler.planner.plan import NAMED_JOBS, Place, Plan, Unmet
from clusterra_scaler.planner.run_history import RunHistory
from clusterra_scaler.planner.seen import Seen
from clusterra_scaler.planner.shapes import FamilyPolicy, NoShape
from clusterra_scaler.planner.supply import Bin, Supply
from clusterra_scaler.planner.workloads import Workloads, is_packed, offerings_of, waiting_ids

GATHERING = "workers are bought for several jobs together in a moment"
CAPPED = "the cluster has as many workers as it may have, or pay for"


@dataclass(frozen=True, slots=True)
class PackingPlan:
    """The plan, and all that is booked once it is carried out."""

    plan: Plan
    bookings: tuple[Booking, ...]


@dataclass(slots=True)
class _Waiting:
    """Jobs of one demand that cannot start now. `held` are the rooms of each that are there; the others must come."""

    demand: Demand
    job_ids: list[JobId]
    held: list[FleetRoom] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.demand.nodes - len(self.held)


def packing_plan(
    demands: Sequence[Demand],
    supply: Supply,
    seen: Seen,
    bookings: Sequence[Booking],
    catalogue: Catalogue,
    allowance: Allowance,
    boots: Boots,
    history: RunHistory,
) -> PackingPlan:
    """Plan for the pending jobs; `catalogue` is what may be bought from."""
    packed = [demand for demand in demands if is_packed(demand)]
    kept = standing(bookings, packed, supply, seen)
    special = [demand for demand in demands if not is_packed(demand)]
    fitted = first_fit(special, _unbooked(supply, kept), FamilyPolicy(), catalogue, allowance)
    left = allowance.after(Counter(fitted.plan.new))
    workloads = Workloads(history, {**supply.specs, **_foreign(supply)})
    fleet = FleetRooms(seen, supply, history)
    rooms = fleet.of(_bins(fitted, supply, kept), kept, _shares(packed, kept, workloads))
    gathers = timedelta(seconds=seen.binding.policy.gather_seconds)
    offerings = offerings_of(catalogue, boots)
    boot_seconds = min((each.boot_seconds for each in offerings), default=0.0)
    filling = _Filling(rooms, workloads, seen, kept, lambda room: fleet.soon(room, boot_seconds))
    for demand in packed:
        filling.start(demand, gathered=seen.now - demand.submitted_at >= gathers)
    filling.buy(offerings, left, catalogue)
    return _joined(fitted.plan, filling)


class _Filling:
    """Rooms as they fill up, and what is bought meanwhile."""

    def __init__(
        self,
        rooms: Sequence[FleetRoom],
        workloads: Workloads,
        seen: Seen,
        kept: Sequence[Booking],
        soon: Callable[[FleetRoom], Room],
    ) -> None:
        """`soon` makes of a room what it is by the time at which a new worker would have booted."""
        self.rooms = rooms
        self.new: dict[str, tuple[Offering, Counter[JobId]]] = {}
        self.holds: list[Booking] = []
        self.unmet: list[Unmet] = []
        self.places: dict[JobId, dict[Place, None]] = {}
        self.seen = seen
        self._workloads = workloads
        self._make_soon = soon
        self._soon: dict[str, Room] = {}
        self._booked = Counter({job_id: 0 for each in kept for job_id in each.jobs})
        for each in kept:
            self._booked.update(each.jobs)
        self._waiting: list[_Waiting] = []

    def start(self, demand: Demand, *, gathered: bool) -> None:
        """Put on what is ready all jobs that Slurm can start now; the others wait for what comes."""
        for room in self.rooms:
            if room.booking is not None and any(job_id in room.booking.jobs for job_id in demand.job_ids):
                self._note(demand, room.place)
        job_ids = waiting_ids(demand, self._booked)
        group = self._workloads.group(demand, job_ids or demand.job_ids[:1], demand.nodes)
        ready = [room for room in self.rooms if room.ready and room.room.takes(group)]
        while job_ids and len(ready) >= demand.nodes:
            job_id = job_ids.pop(0)
            for room in ready[: demand.nodes]:
                self._put(room, group, job_id, demand)
            ready = [room for room in ready if room.room.takes(group)]
        if demand.nodes == 1:
            self._wait_for_room(demand, group, job_ids)
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
            self._waiting.append(_Waiting(demand, job_ids))

    def _wait_for_room(self, demand: Demand, group: Group, job_ids: list[JobId]) -> None:
        """Let jobs wait for what ends before a new worker could have booted."""
        for room in self.rooms if job_ids else ():
            if room.place.kind != "node":
                continue
            if room.room.id not in self._soon:
                self._soon[room.room.id] = self._make_soon(room)
            while job_ids and self._soon[room.room.id].takes(group):
                self._soon[room.room.id].put(group)
                self._put(room, None, job_ids.pop(0), demand)

    def buy(self, offerings: Sequence[Offering], allowance: Allowance, catalogue: Catalogue) -> None:
        """Place what waits on what comes, and buy what is missing."""
        groups = [self._workloads.group(each.demand, each.job_ids, each.missing) for each in self._waiting]
        coming = {room.room.id: room for room in self.rooms if not room.ready}
        packing = pack(groups, [room.room for room in coming.values()], offerings, Settings())
        bought = {each.room: each.offering for each in packing.purchases}
        affordable = _affordable(bought, allowance)
        of_job = {job_id: each for each in reversed(self._waiting) for job_id in each.job_ids}
        placed: Counter[JobId] = Counter()
        for placement in packing.placements:
            waiting = of_job[placement.job_id]
            if any(room in bought and room not in affordable for room in placement.rooms):
                continue
            placed[placement.job_id] += 1
            for room_id in placement.rooms:
                if room_id in coming:
                    self._put(coming[room_id], None, placement.job_id, waiting.demand)
                else:
                    _, jobs = self.new.setdefault(room_id, (bought[room_id], Counter()))
                    jobs[placement.job_id] += 1
                    self._note(waiting.demand, Place("new", "", bought[room_id].shape))
        for waiting in self._waiting:
            self._settle(waiting, placed, catalogue)

    def _settle(self, waiting: _Waiting, placed: Counter[JobId], catalogue: Catalogue) -> None:
        """Book what is held for a job whose other workers come, and tell of jobs that get none."""
        unmet = 0
        for job_id in waiting.job_ids:
            if placed[job_id] > 0:
                placed[job_id] -= 1
                for room in waiting.held:
                    self._note(waiting.demand, room.place)
                    room.jobs[job_id] += 1
                    self.holds.append(_booking(room.place, job_id, self.seen))
            else:
                unmet += 1
        if unmet:
            (shape,) = FamilyPolicy().choose([waiting.demand.parts[0].need], catalogue)
            reason = shape.reason if isinstance(shape, NoShape) else CAPPED
            self.unmet.append(Unmet(waiting.demand, unmet, reason))

    def _put(self, room: FleetRoom, group: Group | None, job_id: JobId, demand: Demand) -> None:
        if group is not None:
            room.room.put(group)
            if room.room.id in self._soon:
                self._soon[room.room.id].put(group)
        room.jobs[job_id] += 1
        self._note(demand, room.place)

    def _note(self, demand: Demand, place: Place) -> None:
        self.places.setdefault(demand.job_ids[0], {})[place] = None


def _booking(place: Place, job_id: JobId, seen: Seen) -> Booking:
    return Booking(shape=place.shape, worker=place.worker or None, jobs={job_id: 1}, bought_at=seen.now)


def _affordable(bought: dict[str, Offering], allowance: Allowance) -> set[str]:
    left = allowance.after(Counter())
    rooms = set()
    for room, offering in bought.items():
        if left.of(offering.shape):
            left.take(offering.shape)
            rooms.add(room)
    return rooms


def _unbooked(supply: Supply, kept: Iterable[Booking]) -> Supply:
    """What nothing is booked on."""
    names = {each.worker for each in kept if each.worker}
    unnamed = Counter(each.shape for each in kept if not each.worker)
    return replace(
        supply,
        bins=[each for each in supply.bins if each.name not in names],
        ordered=Counter(supply.ordered) - unnamed,
    )


def _bins(fitted: FirstFit, supply: Supply, kept: Iterable[Booking]) -> list[Bin]:
    """Workers with a name, and what first fit leaves of those that are ordered and have no bookings."""
    names = {each.worker for each in kept if each.worker}
    left = [each for each in fitted.bins if each.kind != "new" and not (each.kind == "ordered" and each.used)]
    return left + [each for each in supply.bins if each.name in names]


def _foreign(supply: Supply) -> dict[ShapeName, WorkerSpec]:
    """Nodes that are no workers of ours, each as a shape of its own."""
    return {
        foreign(node.name): WorkerSpec(cpus=node.cpus, memory_mib=node.memory_mib, features=node.features)
        for node in supply.nodes.values()
        if node.name not in supply.ours
    }


def _shares(packed: Sequence[Demand], kept: Sequence[Booking], workloads: Workloads) -> dict[JobId, Group]:
    """One node's share of each job that is booked."""
    booked = {job_id for each in kept for job_id in each.jobs}
    return {
        job_id: workloads.group(demand, (job_id,), 1)
        for demand in packed
        for job_id in demand.job_ids
        if job_id in booked
    }


def _joined(special: Plan, filling: _Filling) -> PackingPlan:
    """The plan of first fit and that of the packing."""
    needed, undrain = set(special.needed), set(special.undrain)
    ordered, new = Counter(special.ordered), Counter(special.new)
    jobs = {shape: dict.fromkeys(job_ids) for shape, job_ids in special.jobs.items()}
    bookings: list[Booking] = []
    for room in filling.rooms:
        place = room.place
        if not (room.jobs or room.booking):
            continue
        if place.kind == "draining":
            undrain.add(place.worker)
        elif place.kind == "ordered":
            ordered[place.shape] += 1
        else:
            needed.add(place.worker)
        if room.booking is not None:
            booked = {**room.booking.jobs}
            if not room.ready:
                booked = dict(Counter(booked) + room.jobs)
            bookings.append(room.booking.model_copy(update={"jobs": booked}))
        elif not room.ready:
            bookings.append(
                Booking(
                    shape=place.shape, worker=place.worker or None, jobs=dict(room.jobs), bought_at=filling.seen.now
                )
            )
    for offering, booked_jobs in filling.new.values():
        new[offering.shape] += 1
        jobs.setdefault(offering.shape, {}).update(dict.fromkeys(booked_jobs))
        bookings.append(Booking(shape=offering.shape, jobs=dict(booked_jobs), bought_at=filling.seen.now))
    plan = Plan(
        needed=frozenset(needed),
        undrain=frozenset(undrain),
        ordered=ordered,
        new=new,
        jobs={shape: tuple(islice(named, NAMED_JOBS)) for shape, named in jobs.items()},
        places={**special.places, **{job_id: tuple(places) for job_id, places in filling.places.items()}},
        unmet=(*special.unmet, *filling.unmet),
    )
    return PackingPlan(plan, tuple(sorted([*bookings, *filling.holds], key=lambda each: each.bought_at)))
