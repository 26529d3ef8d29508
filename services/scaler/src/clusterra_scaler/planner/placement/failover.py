"""Planning around shapes that cannot be had: other shapes for their jobs, and one try at a time of those. Pure.

- Nothing is bought of a shape whose breaker is open. Its workers that do not start are no supply, and are given back;
  so the plan buys something else for the same jobs, for all nodes of a job together.
- After the pause one job's worth of workers is tried, if the plan would buy for that job anyway and would choose that
  shape for it. In the whole cluster there is one such try at a time.
- Where every shape that fits a job is open, what was ordered for it stays, and the edge tries on; where nothing was,
  one job's worth is ordered, of the shape that would be chosen if all could be had. So orders never go from one shape
  to the next and back, and the capacity that comes first is used.

In these times a worker that is to come is for any job that it holds, whatever its family: it may have been bought for
jobs of another one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.breakers import Breaker
from clusterra_scaler.planner.observed.launch_failures import stuck_workers
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.registration import OverdueWorker
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.placement.family_policy import new_workers
from clusterra_scaler.planner.placement.packing_policy import Placement
from clusterra_scaler.planner.placement.plan import Plan, Unmet
from clusterra_scaler.planner.placement.quota import QuotaHeadroom
from clusterra_scaler.planner.requests.demand import Demand

type Planner = Callable[[Sequence[Demand], Supply, Catalogue, QuotaHeadroom], Placement]
"""What a policy makes of a catalogue."""


@dataclass(frozen=True, slots=True)
class Failover:
    """A plan, and what follows from the breakers."""

    packed: Placement
    withdrawn: Mapping[WorkerName, OverdueWorker]
    """Workers that may be removed, as long as they do not serve."""
    reasons: Mapping[ShapeName, str]
    """Why less is wanted of a shape, or more of another one, in words."""


def plan_around(
    observation: Observation,
    state: FleetState,
    demands: Sequence[Demand],
    supply: Supply,
    headroom: QuotaHeadroom,
    planner: Planner,
) -> Failover:
    """Plan by the breakers of this state. Nothing is given back unless the view is whole."""
    breakers = {breaker.shape: breaker for breaker in state.breakers if breaker.open}
    catalogue = observation.binding.catalogue
    if not breakers:
        return Failover(planner(demands, supply, catalogue, headroom), {}, {})
    pausing = {shape for shape, breaker in breakers.items() if breaker.pauses(observation.now)}
    in_vain = frozenset(name for shape in sorted(pausing) for name in _in_vain(observation, state, supply, shape))
    rest, waiting = _parted(supply, in_vain, pausing)
    due = breakers.keys() - pausing
    tries = frozenset(name for name, shape in _booting(supply) if shape in due)
    sure, tried = _parted(rest, tries, due)
    usable, out = _without(catalogue, breakers), _only(catalogue, breakers)

    packed = planner(demands, sure, usable, headroom)
    stranded = _stranded(packed.plan, usable, out, catalogue)
    if tries or tried.ordered:
        packed = planner(demands, rest, usable, headroom)
    elif due and (packed.plan.new or packed.plan.unmet):
        packed = _with_try(packed, breakers, due, demands, sure, catalogue, headroom, planner)
    if stranded:
        left = [replace(unmet.demand, count=unmet.count) for unmet in stranded]
        kept = planner(left, waiting, out, headroom.after(Counter(packed.plan.new)))
        coming = {shape for _, shape in _booting(supply)} | Counter(supply.ordered).keys() | packed.plan.new.keys()
        new = {shape: _one_job(kept.plan, shape, left) for shape in kept.plan.new.keys() - coming}
        unmet = [replace(each, reason=_reason(each, breakers, catalogue)) for each in stranded]
        packed = _joined(packed, kept, new, unmet)
    planned = packed.plan
    withdrawn = {
        name: OverdueWorker(serves=False, reason=f"did not start: {breakers[supply.workers[name].shape].words}")
        for name in sorted(in_vain - planned.needed)
    }
    return Failover(packed, withdrawn, _reasons(planned, breakers, catalogue, demands, supply))


def _in_vain(observation: Observation, state: FleetState, supply: Supply, shape: ShapeName) -> list[WorkerName]:
    """Workers of a shape that do not start. Which of them wait for a machine is not told, only how many: the last."""
    if not observation.whole:
        return []
    booting = [
        worker for worker in observation.edge.workers or () if worker.shape == shape and worker.phase == "booting"
    ]
    named = sum(worker.name in state.victims for worker in booting)
    unknown = [worker for worker in booting if worker.name in supply.workers and worker.name not in supply.nodes]
    unknown.sort(key=lambda worker: (bool(worker.reason), worker.started_at, worker.name), reverse=True)
    return [worker.name for worker in unknown[: max(0, stuck_workers(observation, shape) - named)]]


def _stranded(plan: Plan, usable: Catalogue, out: Catalogue, whole: Catalogue) -> list[Unmet]:
    """Jobs that only shapes fit that are out."""
    fits, fits_out = new_workers(usable, whole), new_workers(out, whole)
    return [unmet for unmet in plan.unmet if not _fit(unmet.demand, fits) and _fit(unmet.demand, fits_out)]


def _with_try(
    packed: Placement,
    breakers: Mapping[ShapeName, Breaker],
    due: Collection[ShapeName],
    demands: Sequence[Demand],
    supply: Supply,
    catalogue: Catalogue,
    headroom: QuotaHeadroom,
    planner: Planner,
) -> Placement:
    """The plan with one job's worth of a shape that is due, if that would be bought now and were then used."""
    wished = planner(demands, supply, _without(catalogue, breakers.keys() - due), headroom).plan
    for shape in sorted(due & wished.new.keys(), key=lambda shape: (breakers[shape].probe_at, shape)):
        size = _one_job(wished, shape, demands)
        ordered = replace(supply, ordered={**supply.ordered, shape: size})
        tried = planner(demands, ordered, _without(catalogue, breakers), headroom.after(Counter({shape: size})))
        if tried.plan.ordered.get(shape) == size:
            plan = replace(
                tried.plan,
                ordered={each: count for each, count in tried.plan.ordered.items() if each != shape},
                new={**tried.plan.new, shape: size},
                jobs={**tried.plan.jobs, shape: wished.jobs[shape][:1]},
            )
            return replace(tried, plan=plan)
    return packed


def _booting(supply: Supply) -> list[tuple[WorkerName, ShapeName]]:
    """Workers that have not registered yet."""
    return [
        (worker.name, worker.shape)
        for worker in supply.workers.values()
        if worker.phase == "booting" and worker.name not in supply.nodes
    ]


def _one_job(plan: Plan, shape: ShapeName, demands: Iterable[Demand]) -> int:
    """How many workers of a shape the first of the jobs takes that they would be bought for."""
    first = plan.jobs[shape][0]
    nodes = next(demand.nodes for demand in demands if first in demand.job_ids)
    return min(plan.new[shape], nodes)


def _joined(packed: Placement, kept: Placement, new: Mapping[ShapeName, int], unmet: Sequence[Unmet]) -> Placement:
    """With what is kept for jobs that only shapes fit that are out, and `new` of what would be bought for them."""
    hopeless = {each.demand.job_ids for each in unmet}
    plan = replace(
        packed.plan,
        needed=packed.plan.needed | kept.plan.needed,
        ordered=Counter(packed.plan.ordered) + Counter(kept.plan.ordered),
        new=Counter(packed.plan.new) + Counter(new),
        jobs={**{shape: kept.plan.jobs[shape] for shape in new}, **packed.plan.jobs},
        places={**kept.plan.places, **packed.plan.places},
        unmet=(*(each for each in packed.plan.unmet if each.demand.job_ids not in hopeless), *unmet),
    )
    return replace(packed, plan=plan, bookings=(*packed.bookings, *_bookings(kept, new)))


def _bookings(kept: Placement, new: Mapping[ShapeName, int]) -> Iterator[Booking]:
    """Of workers that there will be."""
    left = Counter(kept.plan.ordered) + Counter(new)
    for booking in kept.bookings:
        if booking.worker or left[booking.shape] > 0:
            left[booking.shape] -= not booking.worker
            yield booking


def _without(catalogue: Catalogue, shapes: Collection[ShapeName]) -> Catalogue:
    return Catalogue(shapes=tuple(shape for shape in catalogue.shapes if shape.name not in shapes))


def _only(catalogue: Catalogue, shapes: Collection[ShapeName]) -> Catalogue:
    return Catalogue(shapes=tuple(shape for shape in catalogue.shapes if shape.name in shapes))


def _parted(supply: Supply, workers: Collection[WorkerName], shapes: Collection[ShapeName]) -> tuple[Supply, Supply]:
    """The supply without these workers and what was ordered of these shapes, and that alone."""
    chosen = {shape: count for shape, count in supply.ordered.items() if count and shape in shapes}
    others = {shape: count for shape, count in supply.ordered.items() if shape not in shapes}
    return (
        replace(
            supply,
            bins=[each for each in supply.bins if each.name not in workers],
            ordered=others,
            workers={name: worker for name, worker in supply.workers.items() if name not in workers},
        ),
        replace(
            supply,
            bins=[each for each in supply.bins if each.name in workers],
            ordered=chosen,
            workers={name: worker for name, worker in supply.workers.items() if name in workers},
        ),
    )


def _fit(demand: Demand, fits: Callable[..., bool]) -> bool:
    return all(part.need.node or fits(part.need) for part in demand.parts)


def _reason(unmet: Unmet, breakers: Mapping[ShapeName, Breaker], catalogue: Catalogue) -> str:
    return _words(breakers, (shape for shape in breakers if _fit(unmet.demand, _fits_one(catalogue, shape))))


def _reasons(
    plan: Plan,
    breakers: Mapping[ShapeName, Breaker],
    catalogue: Catalogue,
    demands: Iterable[Demand],
    supply: Supply,
) -> Mapping[ShapeName, str]:
    """Of each open shape why it is; of each bought one which cheaper ones would have done."""
    found = {shape: breaker.words for shape, breaker in breakers.items() if supply.ordered.get(shape)}
    by_job = {job_id: demand for demand in demands for job_id in demand.job_ids}
    for bought in plan.new.keys() & {shape.name for shape in catalogue.shapes} - breakers.keys():
        jobs = [by_job[job_id] for job_id in plan.jobs[bought]]
        instead = [
            shape
            for shape in breakers
            if catalogue[shape].usd_per_hour <= catalogue[bought].usd_per_hour
            and any(_fit(demand, _fits_one(catalogue, shape)) for demand in jobs)
        ]
        if instead:
            found[bought] = _words(breakers, instead)
    return found


def _fits_one(catalogue: Catalogue, shape: ShapeName) -> Callable[..., bool]:
    return new_workers(Catalogue(shapes=(catalogue[shape],)), catalogue)


def _words(breakers: Mapping[ShapeName, Breaker], shapes: Iterable[ShapeName]) -> str:
    return ", ".join(breakers[shape].words for shape in sorted(shapes))
