"""Failover around shapes that cannot be had: other shapes for their jobs, and one probe at a time. Pure.

- Nothing is bought of a shape whose breaker is open. Its workers that do not start are no supply, and are withdrawn;
  the plan buys another shape for the same jobs, for all nodes of a job together.
- After the pause (the half-open state of a circuit breaker) the plan probes the shape: it orders workers for one job,
  if it would buy for that job anyway and would choose that shape for it. A cluster has at most one probe at a time.
- Where the breaker of every shape that fits a job is open, the orders for that job stand and the edge keeps trying.
  Where nothing was ordered, workers for one job are ordered, of the shape that would be chosen if all could be had.
  So orders never move between shapes, and the capacity that comes first is used. A shape whose workers start and are of
  no use is an exception: each order costs a worker, so nothing is ordered before the pause is over.

Meanwhile a coming worker takes any job that it can hold, whatever its family: it may have been bought for another one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shape_fit import new_workers
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.planner.observed.breakers import ShapeBreaker
from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.launch_failures import stuck_workers
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.observed.registration import OverdueWorker
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.placement.plan import Plan, Unmet
from clusterra_scaler.planner.placement.policy import Placement, PlacementRequest, Policy
from clusterra_scaler.planner.requests.demand import Demand


@dataclass(frozen=True, slots=True)
class Failover:
    """A placement, and what follows from the breakers."""

    placement: Placement
    withdrawn: Mapping[WorkerName, OverdueWorker]
    """Workers that may be removed, as long as they do not serve."""
    reasons: Mapping[ShapeName, str]
    """Why fewer workers of a shape are wanted, or more of another one, for people."""

    def with_unmet(self, unmet: Sequence[Unmet]) -> Self:
        """Add jobs that were not planned for."""
        if not unmet:
            return self
        plan = replace(self.placement.plan, unmet=(*self.placement.plan.unmet, *unmet))
        return replace(self, placement=replace(self.placement, plan=plan))


def plan_around(request: PlacementRequest, policy: Policy) -> Failover:
    """Places the jobs without the shapes whose breakers are open. A partial observation withdraws no worker."""
    breakers = {breaker.shape: breaker for breaker in request.context.state.breakers if breaker.tripped}
    if not breakers:
        return Failover(policy.plan(request), {}, {})
    return _FailoverPlanner(request, policy, breakers).planned()


class _FailoverPlanner:
    """Asks a policy with parts of the supply and of the catalogue."""

    def __init__(self, request: PlacementRequest, policy: Policy, breakers: Mapping[ShapeName, ShapeBreaker]) -> None:
        self._request = request
        self._policy = policy
        self._breakers = breakers
        self._pausing = {
            shape for shape, breaker in breakers.items() if breaker.is_open(request.context.observation.now)
        }
        self._due = breakers.keys() - self._pausing
        """Shapes to probe."""
        self._usable = _without(request.catalogue, breakers)
        self._out = _only(request.catalogue, breakers)
        self._orderable = _without(self._out, {shape for shape in self._pausing if breakers[shape].wasted})
        """Shapes that may be ordered for jobs that fit no other shape."""

    def planned(self) -> Failover:
        """The placement by the breakers."""
        request, supply = self._request, self._request.supply
        not_starting = frozenset(
            name for shape in sorted(self._pausing) for name in _not_starting(request.context, supply, shape)
        )
        rest, waiting = _parted(supply, not_starting, self._pausing)
        probes = frozenset(name for name, shape in _booting(supply) if shape in self._due)
        sure, probed = _parted(rest, probes, self._due)

        placement = self._plan(supply=sure)
        stranded = self._stranded(placement.plan)
        if probes or probed.ordered:
            placement = self._plan(supply=rest)
        elif self._due and (placement.plan.new or placement.plan.unmet):
            placement = self._with_probe(placement, sure)
        if stranded:
            placement = self._with_orders_kept(placement, stranded, waiting)
        plan = placement.plan
        withdrawn = {
            name: OverdueWorker(
                serves=False, reason=f"did not start: {self._breakers[supply.workers[name].shape].description}"
            )
            for name in sorted(not_starting - plan.needed)
        }
        return Failover(placement, withdrawn, self._reasons(plan))

    def _plan(
        self,
        supply: Supply,
        *,
        demands: Sequence[Demand] | None = None,
        catalogue: Catalogue | None = None,
        headroom: QuotaHeadroom | None = None,
    ) -> Placement:
        request = self._request
        return self._policy.plan(
            PlacementRequest(
                context=request.context,
                demands=request.demands if demands is None else demands,
                supply=supply,
                catalogue=catalogue or self._usable,
                headroom=headroom or request.headroom,
            )
        )

    def _stranded(self, plan: Plan) -> list[Unmet]:
        """Unmet jobs that fit only shapes whose breakers are open."""
        whole = self._request.catalogue
        fits, fits_out = new_workers(self._usable, whole), new_workers(self._out, whole)
        return [unmet for unmet in plan.unmet if not _fit(unmet.demand, fits) and _fit(unmet.demand, fits_out)]

    def _with_probe(self, placement: Placement, supply: Supply) -> Placement:
        """The placement with workers of a shape that is due for one job, if they would be bought and then used now."""
        breakers, demands = self._breakers, self._request.demands
        catalogue = _without(self._request.catalogue, self._pausing)
        wished = self._plan(supply, catalogue=catalogue).plan
        for shape in sorted(self._due & wished.new.keys(), key=lambda shape: (breakers[shape].probe_at, shape)):
            size = _one_job(wished, shape, demands)
            ordered = replace(supply, ordered={**supply.ordered, shape: size})
            tried = self._plan(ordered, headroom=self._request.headroom.after(Counter({shape: size})))
            if tried.plan.ordered.get(shape) == size:
                plan = replace(
                    tried.plan,
                    ordered={each: count for each, count in tried.plan.ordered.items() if each != shape},
                    new={**tried.plan.new, shape: size},
                    jobs={**tried.plan.jobs, shape: wished.jobs[shape][:1]},
                )
                return replace(tried, plan=plan)
        return placement

    def _with_orders_kept(self, placement: Placement, stranded: Sequence[Unmet], waiting: Supply) -> Placement:
        """The placement with the orders for stranded jobs, or with workers for one of them where none are ordered."""
        supply = self._request.supply
        demands = [replace(unmet.demand, count=unmet.count) for unmet in stranded]
        headroom = self._request.headroom.after(Counter(placement.plan.new))
        waiting = replace(waiting, ordered=Counter(waiting.ordered) - self._cancelled(waiting))
        kept = self._plan(waiting, demands=demands, catalogue=self._orderable, headroom=headroom)
        coming = {shape for _, shape in _booting(supply)} | Counter(supply.ordered).keys() | placement.plan.new.keys()
        new = {shape: _one_job(kept.plan, shape, demands) for shape in kept.plan.new.keys() - coming}
        unmet = [replace(each, reason=self._reason(each)) for each in stranded]
        return _joined(placement, kept, new, unmet)

    def _cancelled(self, supply: Supply) -> Counter[ShapeName]:
        """The orders that would cost a worker each, and help nobody."""
        wasted = {shape for shape in self._pausing if self._breakers[shape].wasted}
        return Counter({shape: count for shape, count in supply.ordered.items() if shape in wasted})

    def _reason(self, unmet: Unmet) -> str:
        """Why no worker can be had for these jobs, for people."""
        catalogue = self._request.catalogue
        return self._words(shape for shape in self._breakers if _fit(unmet.demand, _fits_one(catalogue, shape)))

    def _reasons(self, plan: Plan) -> Mapping[ShapeName, str]:
        """For each ordered shape with an open breaker its cause; for each bought one the cheaper shapes it replaces."""
        breakers, catalogue = self._breakers, self._request.catalogue
        found = {
            shape: breaker.description for shape, breaker in breakers.items() if self._request.supply.ordered.get(shape)
        }
        by_job = {job_id: demand for demand in self._request.demands for job_id in demand.job_ids}
        for bought in plan.new.keys() & {shape.name for shape in catalogue.shapes} - breakers.keys():
            jobs = [by_job[job_id] for job_id in plan.jobs[bought]]
            instead = [
                shape
                for shape in breakers
                if catalogue[shape].usd_per_hour <= catalogue[bought].usd_per_hour
                and any(_fit(demand, _fits_one(catalogue, shape)) for demand in jobs)
            ]
            if instead:
                found[bought] = self._words(instead)
        return found

    def _words(self, shapes: Iterable[ShapeName]) -> str:
        return ", ".join(self._breakers[shape].description for shape in sorted(shapes))


def _not_starting(context: DecisionContext, supply: Supply, shape: ShapeName) -> list[WorkerName]:
    """Workers of a shape that do not start. The edge tells only how many wait for a machine: the youngest are taken."""
    observation = context.observation
    if not observation.complete:
        return []
    booting = [
        worker for worker in observation.edge.workers or () if worker.shape == shape and worker.phase == "booting"
    ]
    named = sum(worker.name in context.state.victims for worker in booting)
    unknown = [worker for worker in booting if worker.name in supply.workers and worker.name not in supply.nodes]
    unknown.sort(key=lambda worker: (bool(worker.reason), worker.started_at, worker.name), reverse=True)
    return [worker.name for worker in unknown[: max(0, stuck_workers(observation, shape) - named)]]


def _booting(supply: Supply) -> list[tuple[WorkerName, ShapeName]]:
    """Booting workers that have not registered yet."""
    return [
        (worker.name, worker.shape)
        for worker in supply.workers.values()
        if worker.phase == "booting" and worker.name not in supply.nodes
    ]


def _one_job(plan: Plan, shape: ShapeName, demands: Iterable[Demand]) -> int:
    """How many of the new workers of a shape the first of their jobs needs."""
    first = plan.jobs[shape][0]
    nodes = next(demand.nodes for demand in demands if first in demand.job_ids)
    return min(plan.new[shape], nodes)


def _joined(placement: Placement, kept: Placement, new: Mapping[ShapeName, int], unmet: Sequence[Unmet]) -> Placement:
    """Joins the placement with the one of stranded jobs; `new` workers of the latter are bought."""
    hopeless = {each.demand.job_ids for each in unmet}
    plan = replace(
        placement.plan,
        needed=placement.plan.needed | kept.plan.needed,
        ordered=Counter(placement.plan.ordered) + Counter(kept.plan.ordered),
        new=Counter(placement.plan.new) + Counter(new),
        jobs={**{shape: kept.plan.jobs[shape] for shape in new}, **placement.plan.jobs},
        places={**kept.plan.places, **placement.plan.places},
        unmet=(*(each for each in placement.plan.unmet if each.demand.job_ids not in hopeless), *unmet),
    )
    return replace(placement, plan=plan, bookings=(*placement.bookings, *_bookings(kept, new)))


def _bookings(kept: Placement, new: Mapping[ShapeName, int]) -> Iterator[Booking]:
    """The bookings on workers that will exist."""
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
    """Splits the supply: without these workers and the orders of these shapes, and those alone."""
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


def _fits_one(catalogue: Catalogue, shape: ShapeName) -> Callable[..., bool]:
    return new_workers(Catalogue(shapes=(catalogue[shape],)), catalogue)
