"""The policy `packing`: what pending jobs will use of what is there, and what is bought for the others.

What Slurm can start now it will start; that is no matter of ours. Jobs that are booked keep their room. The others go
onto coming workers, or onto new ones, where they are expected to add the fewest dollars (see `packing`). Jobs with
wishes that the packing does not know are served before, by first fit.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.node_extra import job_class
from clusterra_contracts.queue import RunningJob
from clusterra_contracts.shapes import Catalogue, WorkerSpec

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.supply import Supply, SupplyBin
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.bookings import standing
from clusterra_scaler.planner.placement.family_policy import FamilyPolicy
from clusterra_scaler.planner.placement.first_fit import FirstFit, first_fit
from clusterra_scaler.planner.placement.fleet_assignment import FleetAssignment
from clusterra_scaler.planner.placement.fleet_bins import FleetBin, FleetBins, foreign
from clusterra_scaler.planner.placement.gpu_node_extra import gpu_extras
from clusterra_scaler.planner.placement.head_reservation import CappedJob, HeadReservation, clearance
from clusterra_scaler.planner.placement.node_extra import MOST_CLASSES, ClosedNodes
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.plan import NAMED_JOBS, Plan
from clusterra_scaler.planner.placement.quota import QuotaHeadroom
from clusterra_scaler.planner.placement.workloads import Shares, Workloads, is_packed
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.requests.gpu_shapes import GpuShapes


@dataclass(frozen=True, slots=True)
class Placement:
    """The plan, and all that is booked once it is carried out."""

    plan: Plan
    bookings: tuple[Booking, ...]
    extras: Mapping[WorkerName, str]
    """The Extra of workers that must have another one."""


def packing_plan(
    demands: Sequence[Demand],
    supply: Supply,
    observation: Observation,
    bookings: Sequence[Booking],
    catalogue: Catalogue,
    headroom: QuotaHeadroom,
    latency: ProvisioningLatency,
    history: RunHistory,
) -> Placement:
    """Plan for the pending jobs; `catalogue` is what may be bought from."""
    packed = [demand for demand in demands if is_packed(demand)]
    special = [demand for demand in demands if not is_packed(demand)]
    kept = standing(bookings, packed, supply, observation)
    policy = FamilyPolicy(observation.binding.catalogue)
    fitted = first_fit(special, _unbooked(supply, kept), policy, catalogue, headroom, any_family=True)
    gpu_shapes = GpuShapes(observation.binding.catalogue)
    workloads = Workloads(history, {**supply.specs, **_foreign(supply)}, gpu_shapes)
    nobodys = gpu_shapes.excluded_for_all(demand.parts[0].need for demand in packed)
    # First fit has placed them where nobody knew that they would be refused.
    let_in = {name for demand in special if (name := job_class(demand.extra))}
    question = _Question(
        packed=packed,
        observation=observation,
        supply=supply,
        kept=kept,
        bins=_bins(fitted, supply, kept),
        workloads=workloads,
        fleet=FleetBins(observation, supply, history),
        shares=Shares(packed, workloads),
        offers=Offers.of(observation, catalogue, headroom.after(Counter(fitted.plan.new)), latency, nobodys),
        gpu_shapes=gpu_shapes,
        classes=_classes(packed, let_in, observation, workloads),
        let_in=let_in,
    )
    assignment, closed_nodes = question.filled()
    cleared = question.clearance(assignment.capped) if assignment.capped else None
    if cleared is not None:
        assignment, closed_nodes = question.filled(cleared)
    plan, booked = _joined(fitted.plan, assignment)
    if cleared is not None:
        going = cleared.workers - plan.needed - plan.undrain
        plan = replace(plan, clear=dict.fromkeys(sorted(going), cleared.claim.job_id))
    extras = closed_nodes.extras(packed) if question.classes else {}
    return Placement(plan, booked, {**extras, **gpu_extras(observation, gpu_shapes)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """All that the packing is asked by. It can be answered more than once: rooms are made anew each time."""

    packed: Sequence[Demand]
    observation: Observation
    supply: Supply
    kept: Sequence[Booking]
    bins: Sequence[SupplyBin]
    workloads: Workloads
    fleet: FleetBins
    shares: Shares
    offers: Offers
    gpu_shapes: GpuShapes
    classes: Mapping[str, Group]
    let_in: Collection[str]
    """Classes of jobs that no worker may refuse."""

    def filled(self, cleared: HeadReservation | None = None) -> tuple[FleetAssignment, ClosedNodes]:
        """Jobs placed and workers bought; and which workers refuse which jobs."""
        fleet_bins = self._rooms()
        # Workers with GPUs refuse by a rule of their own.
        refusing = [fleet_bin for fleet_bin in fleet_bins if fleet_bin.place.shape not in self.gpu_shapes.names]
        closed_nodes = ClosedNodes(refusing, self.supply, self.classes, self.let_in, self.offers.offerings, Settings())
        assignment = FleetAssignment(
            fleet_bins, self.workloads, self.observation, self.kept, closed_nodes, self._soon, cleared
        )
        gathers = timedelta(seconds=self.observation.binding.policy.gather_seconds)
        for demand in sorted(self.packed, key=lambda demand: not assignment.claims(demand)):
            assignment.start(demand, gathered=self.observation.now - demand.submitted_at >= gathers)
        assignment.buy(self.offers)
        return assignment, closed_nodes

    def clearance(self, capped: Sequence[CappedJob]) -> HeadReservation | None:
        """What is done for the first of those that get nothing."""
        return clearance(capped, self._rooms(), self.supply, self.observation, self.offers, self._is_soon_empty)

    def _rooms(self) -> list[FleetBin]:
        return self.fleet.of(self.bins, self.kept, self.shares)

    def _soon(self, fleet_bin: FleetBin) -> Bin:
        return self.fleet.soon(fleet_bin, self.offers.boot_seconds)

    def _is_soon_empty(self, fleet_bin: FleetBin) -> bool:
        return self.fleet.is_empty_in(fleet_bin, self.offers.boot_seconds)


def _classes(
    packed: Sequence[Demand], let_in: Container[str], observation: Observation, workloads: Workloads
) -> dict[str, Group]:
    """One share of a job of each class that waits, in their order, or runs: the next may come at any moment.

    But for those that are let in everywhere, and so many as workers look at.
    """
    classes: dict[str, Group] = {}
    jobs: list[Demand | RunningJob] = [*packed, *(observation.snapshot.running or ())]
    for each in jobs:
        name = job_class(each.extra)
        if name is None or name in classes or name in let_in:
            continue
        if len(classes) == MOST_CLASSES:
            break
        if isinstance(each, Demand):
            classes[name] = workloads.group(each, each.job_ids[:1], 1)
        else:
            classes[name] = workloads.running(each)
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


def _bins(fitted: FirstFit, supply: Supply, kept: Iterable[Booking]) -> list[SupplyBin]:
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


def _joined(special: Plan, assignment: FleetAssignment) -> tuple[Plan, tuple[Booking, ...]]:
    """The plan of first fit and that of the packing."""
    needed, undrain = set(special.needed), set(special.undrain)
    ordered, new = Counter(special.ordered), Counter(special.new)
    jobs = {shape: dict.fromkeys(job_ids) for shape, job_ids in special.jobs.items()}
    bookings: list[Booking] = []
    for fleet_bin in assignment.fleet_bins:
        place = fleet_bin.place
        if not (fleet_bin.jobs or fleet_bin.booking):
            continue
        if place.kind == "draining":
            undrain.add(place.worker)
        elif place.kind == "ordered":
            ordered[place.shape] += 1
        else:
            needed.add(place.worker)
        if fleet_bin.booking is not None and (fleet_bin.ready or not fleet_bin.jobs):
            bookings.append(fleet_bin.booking)
        elif fleet_bin.booking is not None:
            booked = dict(Counter(fleet_bin.booking.jobs) + Counter(fleet_bin.jobs))
            bookings.append(replace(fleet_bin.booking, jobs=booked))
        elif not fleet_bin.ready:
            bookings.append(
                Booking(
                    shape=place.shape,
                    worker=place.worker or None,
                    jobs=dict(fleet_bin.jobs),
                    bought_at=assignment.observation.now,
                )
            )
    for worker in assignment.new.values():
        shape = worker.place.shape
        new[shape] += 1
        named = jobs.setdefault(shape, {})
        if len(named) < NAMED_JOBS:
            named.update(dict.fromkeys(worker.jobs))
        bookings.append(Booking(shape=shape, jobs=worker.jobs, bought_at=assignment.observation.now))
    plan = Plan(
        needed=frozenset(needed),
        undrain=frozenset(undrain),
        ordered=ordered,
        new=new,
        jobs={shape: tuple(islice(named, NAMED_JOBS)) for shape, named in jobs.items()},
        places={**special.places, **{job_id: tuple(places) for job_id, places in assignment.places.items()}},
        unmet=(*special.unmet, *assignment.unmet),
    )
    return plan, tuple(sorted([*bookings, *assignment.holds], key=lambda each: each.bought_at))
