"""The policy `packing`: what pending jobs will use of what is there, and what is bought for the others.

What Slurm can start now it will start; that is no matter of ours. Jobs that are booked keep their room. The others go
onto coming workers, or onto new ones, where they are expected to add the fewest dollars (see `packing`). Jobs with
wishes that the packing does not know are served before, by first fit.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.node_extra import job_class
from clusterra_contracts.shapes import Catalogue, WorkerSpec

from clusterra_scaler.planner.allowance import Allowance
from clusterra_scaler.planner.booking import Booking
from clusterra_scaler.planner.bookings import standing
from clusterra_scaler.planner.boots import Boots
from clusterra_scaler.planner.claims import Clearance, clearance
from clusterra_scaler.planner.demand import Demand
from clusterra_scaler.planner.first_fit import FirstFit, first_fit
from clusterra_scaler.planner.fleet_filling import FleetFilling
from clusterra_scaler.planner.fleet_rooms import FleetRooms, foreign
from clusterra_scaler.planner.gpu_extras import gpu_extras
from clusterra_scaler.planner.gpu_shapes import GpuShapes
from clusterra_scaler.planner.job_costs import JobCosts
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.packing.vectors import Group
from clusterra_scaler.planner.plan import NAMED_JOBS, Plan
from clusterra_scaler.planner.refusals import Refusals
from clusterra_scaler.planner.run_history import RunHistory
from clusterra_scaler.planner.seen import Seen
from clusterra_scaler.planner.shapes import FamilyPolicy
from clusterra_scaler.planner.supply import Bin, Supply
from clusterra_scaler.planner.workloads import Shares, Workloads, is_packed, offerings_of, owner

MOST_CLASSES = 200
"""So many classes of running jobs are looked at; one that is not known is decided about when a job of it waits."""


@dataclass(frozen=True, slots=True)
class PackingPlan:
    """The plan, and all that is booked once it is carried out."""

    plan: Plan
    bookings: tuple[Booking, ...]
    extras: Mapping[WorkerName, str]
    """The Extra of workers that must have another one."""


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
    policy = FamilyPolicy(seen.binding.catalogue)
    special = [demand for demand in demands if not is_packed(demand)]
    fitted = first_fit(special, _unbooked(supply, kept), policy, catalogue, allowance, any_family=True)
    left = allowance.after(Counter(fitted.plan.new))
    gpu_shapes = GpuShapes(seen.binding.catalogue)
    workloads = Workloads(history, {**supply.specs, **_foreign(supply)}, gpu_shapes)
    fleet = FleetRooms(seen, supply, history)
    shares = Shares(packed, workloads)
    gathers = timedelta(seconds=seen.binding.policy.gather_seconds)
    nobodys = gpu_shapes.kept_from_all(demand.parts[0].need for demand in packed)
    offerings = [each for each in offerings_of(catalogue, boots) if each.shape not in nobodys]
    boot_seconds = min((each.boot_seconds for each in offerings), default=0.0)
    # First fit has placed them where nobody knew that they would be refused.
    let_in = {name for demand in special if (name := job_class(demand.extra))}
    classes = _classes(packed, let_in, seen, workloads)
    usd_per_hour = _usd_per_hour(seen)

    def filled(cleared: Clearance | None = None) -> tuple[FleetFilling, Refusals]:
        rooms = fleet.of(_bins(fitted, supply, kept), kept, shares)
        # Workers with GPUs refuse by a rule of their own.
        refusing = [room for room in rooms if room.place.shape not in gpu_shapes.names]
        refusals = Refusals(refusing, supply, classes, let_in, offerings, Settings())
        filling = FleetFilling(
            rooms, workloads, seen, kept, refusals, lambda room: fleet.soon(room, boot_seconds), cleared
        )
        for demand in sorted(packed, key=lambda demand: not filling.claims(demand)):
            filling.start(demand, gathered=seen.now - demand.submitted_at >= gathers)
        filling.buy(offerings, left, catalogue, usd_per_hour)
        return filling, refusals

    filling, refusals = filled()
    cleared = None
    if filling.capped:
        rooms = fleet.of(_bins(fitted, supply, kept), kept, shares)
        cleared = clearance(
            filling.capped,
            rooms,
            supply,
            seen,
            left,
            offerings,
            boot_seconds,
            lambda room: fleet.is_empty_in(room, boot_seconds),
        )
        if cleared is not None:
            filling, refusals = filled(cleared)
    plan, booked = _joined(fitted.plan, filling)
    if cleared is not None:
        going = cleared.workers - plan.needed - plan.undrain
        plan = replace(plan, clear=dict.fromkeys(sorted(going), cleared.claim.job_id))
    extras = refusals.extras(packed) if classes else {}
    return PackingPlan(plan, booked, {**extras, **gpu_extras(seen, gpu_shapes)})


def _usd_per_hour(seen: Seen) -> dict[str, float]:
    """What the running jobs of each owner cost."""
    costs, jobs = JobCosts(seen.snapshot, seen.binding), seen.snapshot.running or ()
    owners: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        owners[owner(job.uid)] += costs.usd_per_hour(job)
    return owners


def _classes(packed: Sequence[Demand], let_in: Container[str], seen: Seen, workloads: Workloads) -> dict[str, Group]:
    """One share of a job of each class that waits or runs, but for those that are let in everywhere."""
    classes = {
        name: workloads.group(demand, demand.job_ids[:1], 1)
        for demand in packed
        if (name := job_class(demand.extra)) and name not in let_in
    }
    for job in seen.snapshot.running or ():
        name = job_class(job.extra)
        if name is not None and name not in classes and name not in let_in and len(classes) < MOST_CLASSES:
            classes[name] = workloads.running(job)
    return classes


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


def _joined(special: Plan, filling: FleetFilling) -> tuple[Plan, tuple[Booking, ...]]:
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
        if room.booking is not None and (room.ready or not room.jobs):
            bookings.append(room.booking)
        elif room.booking is not None:
            booked = dict(Counter(room.booking.jobs) + Counter(room.jobs))
            bookings.append(replace(room.booking, jobs=booked))
        elif not room.ready:
            bookings.append(
                Booking(
                    shape=place.shape, worker=place.worker or None, jobs=dict(room.jobs), bought_at=filling.seen.now
                )
            )
    for worker in filling.new.values():
        shape = worker.place.shape
        new[shape] += 1
        named = jobs.setdefault(shape, {})
        if len(named) < NAMED_JOBS:
            named.update(dict.fromkeys(worker.jobs))
        bookings.append(Booking(shape=shape, jobs=worker.jobs, bought_at=filling.seen.now))
    plan = Plan(
        needed=frozenset(needed),
        undrain=frozenset(undrain),
        ordered=ordered,
        new=new,
        jobs={shape: tuple(islice(named, NAMED_JOBS)) for shape, named in jobs.items()},
        places={**special.places, **{job_id: tuple(places) for job_id, places in filling.places.items()}},
        unmet=(*special.unmet, *filling.unmet),
    )
    return plan, tuple(sorted([*bookings, *filling.holds], key=lambda each: each.bought_at))
