"""The policy `packing`: bin packing by expected cost.

Slurm starts what it can start now; the policy leaves those jobs to it. Booked jobs keep their bins. The others go onto
coming or new workers, where they are expected to add the fewest dollars (see `packing.pack`). Jobs with requests that
the packing does not model are placed before, by first fit.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.node_extra import job_class
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.shapes import WorkerSpec

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.supply import Supply, SupplyBin, is_usable
from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.bookings import valid_bookings
from clusterra_scaler.planner.placement.first_fit import FirstFit, FirstFitOptions, first_fit
from clusterra_scaler.planner.placement.fleet_assignment import FleetAssignment
from clusterra_scaler.planner.placement.fleet_bins import FleetBin, FleetBins, foreign_shape
from clusterra_scaler.planner.placement.fleet_capacity import FleetCapacity
from clusterra_scaler.planner.placement.gpu_node_extra import gpu_extras
from clusterra_scaler.planner.placement.head_reservation import CappedJob, HeadReservation, head_reservation
from clusterra_scaler.planner.placement.job_groups import JobGroups, NodeShares, is_packable
from clusterra_scaler.planner.placement.node_extra import MOST_CLASSES, ClosedNodes
from clusterra_scaler.planner.placement.offers import Offers
from clusterra_scaler.planner.placement.plan import NAMED_JOBS, Plan
from clusterra_scaler.planner.placement.policy import Placement, PlacementRequest
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes
from clusterra_scaler.planner.requests.demand import Demand

LONGEST_GATHER_SECONDS = 1e9
"""A longer batching window has no end, and no timedelta."""


class PackingPolicy:
    """Buys by expected cost and learns how long to keep idle workers."""

    def plan(self, request: PlacementRequest) -> Placement:
        """See Policy."""
        problem, special = _problem(request)
        assignment, closed_nodes = problem.solved()
        head = problem.head_reservation(assignment.capped) if assignment.capped else None
        if head is not None:
            assignment, closed_nodes = problem.solved(head)
        plan, bookings = _joined(special, assignment)
        if head is not None:
            drained = head.workers - plan.needed - plan.undrain
            plan = replace(plan, drain_for=dict.fromkeys(sorted(drained), head.job.job_id))
        context = request.context
        extras = closed_nodes.extras(problem.packed) if problem.classes else {}
        gpu = gpu_extras(context.observation.snapshot, context.gpu_shapes)
        return Placement(plan, bookings, {**extras, **gpu})

    def keep_alive(self, node: NodeState, context: DecisionContext) -> tuple[float, float]:
        """See Policy. The time is learned from idle gaps, and at most the policy's `idle_seconds`."""
        observation = context.observation
        worker = context.history.idle_gaps.idle[node.name]
        idle_seconds = observation.now.timestamp() - worker.since
        return idle_seconds, min(worker.keep_seconds, observation.binding.policy.idle_seconds)

    def keep_unregistered(self, name: WorkerName, context: DecisionContext) -> float | None:
        """See Policy. The time for which what is done of its boot is worth its price."""
        return context.history.idle_gaps.idle[name].keep_seconds


def _problem(request: PlacementRequest) -> tuple["_PackingProblem", Plan]:
    """The packing problem of the request, and the plan of first fit for the jobs that the packing does not model."""
    context, supply = request.context, request.supply
    observation = context.observation
    packed = [demand for demand in request.demands if is_packable(demand)]
    special = [demand for demand in request.demands if not is_packable(demand)]
    kept = valid_bookings(context.state.bookings, packed, supply, observation)
    options = FirstFitOptions(FamilyShapes(observation.binding.catalogue), any_family=True)
    fitted = first_fit(special, _unbooked(supply, kept), request.catalogue, request.headroom, options)
    job_groups = JobGroups(context.run_history, {**supply.specs, **_foreign(supply)}, context.gpu_shapes)
    # First fit has placed these jobs without knowing which nodes are closed to them.
    admitted = {name for demand in special if (name := job_class(demand.extra))}
    problem = _PackingProblem(
        packed=packed,
        context=context,
        supply=supply,
        kept=kept,
        bins=_bins(fitted, supply, kept),
        job_groups=job_groups,
        fleet=FleetBins(observation, supply, context.run_history),
        shares=NodeShares(packed, job_groups),
        offers=Offers.of(
            observation,
            request.catalogue,
            request.headroom.after(Counter(fitted.plan.new)),
            context.history.registrations.latency,
            context.gpu_shapes.excluded_for_all(demand.parts[0].need for demand in packed),
        ),
        classes=_classes(packed, admitted, observation, job_groups),
        admitted=admitted,
    )
    return problem, fitted.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _PackingProblem:
    """The input of the packing. It can be solved more than once: each solution starts with fresh bins."""

    packed: Sequence[Demand]
    context: DecisionContext
    supply: Supply
    kept: Sequence[Booking]
    bins: Sequence[SupplyBin]
    job_groups: JobGroups
    fleet: FleetBins
    shares: NodeShares
    offers: Offers
    classes: Mapping[str, Group]
    admitted: Collection[str]
    """Job classes that no node is closed to."""

    def solved(self, head: HeadReservation | None = None) -> tuple[FleetAssignment, ClosedNodes]:
        """Assigns jobs to bins and buys workers; also tells which nodes are closed to which jobs."""
        observation, fleet_bins = self.context.observation, self._fleet_bins()
        # Workers with GPUs have a rule of their own, see `gpu_node_extra`.
        closable = [each for each in fleet_bins if each.place.shape not in self.context.gpu_shapes.names]
        closed_nodes = ClosedNodes(closable, self.supply, self.classes, self.admitted, self.offers, Settings())
        capacity = FleetCapacity(fleet_bins, closed_nodes, self._soon, head)
        assignment = FleetAssignment(capacity, self.job_groups, observation, self.kept)
        gathers = timedelta(seconds=min(observation.binding.policy.gather_seconds, LONGEST_GATHER_SECONDS))
        for demand in sorted(self.packed, key=lambda demand: not assignment.has_head_job(demand)):
            assignment.start(demand, batch_closed=observation.now - demand.submitted_at >= gathers)
        assignment.buy(self.offers)
        return assignment, closed_nodes

    def head_reservation(self, capped: Sequence[CappedJob]) -> HeadReservation | None:
        """The reservation for the first job that the quota leaves without workers."""
        return head_reservation(
            capped, self._fleet_bins(), self.supply, self.context.observation, self.offers, self._is_soon_empty
        )

    def _fleet_bins(self) -> list[FleetBin]:
        return self.fleet.of(self.bins, self.kept, self.shares)

    def _soon(self, fleet_bin: FleetBin) -> Bin:
        return self.fleet.bin_after(fleet_bin, self.offers.boot_seconds)

    def _is_soon_empty(self, fleet_bin: FleetBin) -> bool:
        return self.fleet.is_empty_after(fleet_bin, self.offers.boot_seconds)


def _classes(
    packed: Sequence[Demand], admitted: Container[str], observation: Observation, job_groups: JobGroups
) -> dict[str, Group]:
    """One node's share of a job of each job class: pending classes in queue order, then running ones.

    A running class counts because its next job may arrive at any moment. Classes that are admitted everywhere are left
    out, and there are at most `MOST_CLASSES`.
    """
    classes: dict[str, Group] = {}
    jobs: list[Demand | RunningJob] = [*packed, *(observation.snapshot.running or ())]
    for each in jobs:
        name = job_class(each.extra)
        if name is None or name in classes or name in admitted:
            continue
        if len(classes) == MOST_CLASSES:
            break
        if isinstance(each, Demand):
            classes[name] = job_groups.group(each, each.job_ids[:1], 1)
        else:
            classes[name] = job_groups.running(each)
    return classes


def _unbooked(supply: Supply, kept: Iterable[Booking]) -> Supply:
    """The part of the supply without bookings."""
    names = {each.worker for each in kept if each.worker}
    unnamed = Counter(each.shape for each in kept if not each.worker)
    return replace(
        supply,
        bins=[each for each in supply.bins if each.name not in names],
        ordered=Counter(supply.ordered) - unnamed,
    )


def _bins(fitted: FirstFit, supply: Supply, kept: Iterable[Booking]) -> list[SupplyBin]:
    """Bins for the packing: named workers, and ordered ones that neither first fit nor a booking uses."""
    names = {each.worker for each in kept if each.worker}
    left = [each for each in fitted.bins if each.kind != "new" and not (each.kind == "ordered" and each.used)]
    return left + [each for each in supply.bins if each.name in names]


def _foreign(supply: Supply) -> dict[ShapeName, WorkerSpec]:
    """Nodes that are not our workers, each as a shape of its own."""
    return {
        foreign_shape(node.name): WorkerSpec(cpus=node.cpus, memory_mib=node.memory_mib, features=node.features)
        for node in supply.nodes.values()
        if node.name not in supply.worker_nodes and is_usable(node)
    }


def _joined(special: Plan, assignment: FleetAssignment) -> tuple[Plan, tuple[Booking, ...]]:
    """Joins the plan of first fit with that of the packing; also the bookings that follow."""
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
    return plan, tuple(sorted([*bookings, *assignment.held_bookings], key=lambda each: each.bought_at))
