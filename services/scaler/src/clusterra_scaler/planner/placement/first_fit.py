"""First fit decreasing: pending jobs on existing, coming and new workers. Other policies are measured against it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice

from clusterra_contracts import gres
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need
from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.shapes import Catalogue, Shape

from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.observed.supply import Kind, Supply, SupplyBin, best_fit_key, empty_bin
from clusterra_scaler.planner.placement.plan import AT_QUOTA, NAMED_JOBS, Place, Plan, Unmet
from clusterra_scaler.planner.placement.shape_choice import NoShape, ShapeChooser
from clusterra_scaler.planner.requests.demand import Demand

_COMING = frozenset({"booting", "ordered", "new"})
_ROUNDS = 8
"""Upper bound. Two rounds are nearly always enough: one that buys, and one that confirms the purchases."""


@dataclass(frozen=True, slots=True)
class FirstFitOptions:
    """How first fit chooses shapes and bins."""

    chooser: ShapeChooser
    any_family: bool = False
    """Whether a worker that has not registered yet takes jobs of every family."""


@dataclass(slots=True)
class _Assignment:
    """Bins as jobs are assigned to them."""

    bins: list[SupplyBin]
    headroom: QuotaHeadroom
    jobs: dict[ShapeName, dict[JobId, None]]
    options: FirstFitOptions
    places: dict[JobId, dict[Place, None]] = field(default_factory=dict)
    unmet: list[Unmet] = field(default_factory=list)
    with_gres: list[SupplyBin] = field(init=False)
    """Bins with free generic resources, in the same order."""

    def __post_init__(self) -> None:
        self.with_gres = [each for each in self.bins if any(each.gres.values())]

    def used(self, *kinds: Kind) -> list[SupplyBin]:
        return [each for each in self.bins if each.used and each.kind in kinds]


@dataclass(frozen=True, slots=True)
class FirstFit:
    """The plan, and the bins with its jobs in them. Bins that were not bought can take more jobs."""

    plan: Plan
    bins: tuple[SupplyBin, ...]


def first_fit(
    demands: Sequence[Demand],
    supply: Supply,
    catalogue: Catalogue,
    headroom: QuotaHeadroom,
    options: FirstFitOptions,
) -> FirstFit:
    """Places the demands in decreasing order: first fit on the supply, then on new workers.

    A job of several nodes is placed whole or not at all. The purchases are placed again as if they were ordered, and
    unused ones are dropped, until nothing changes: the next decision, which finds them ordered, gives the same answer.
    """
    chosen = iter(options.chooser.choose([part.need for demand in demands for part in demand.parts], catalogue))
    shapes = [[next(chosen) for _ in demand.parts] for demand in demands]
    decreasing = sorted(zip(demands, shapes, strict=True), key=_decreasing)
    jobs: dict[ShapeName, dict[JobId, None]] = {}
    bought: Counter[ShapeName] = Counter()
    for _ in range(_ROUNDS):
        assignment = _Assignment(_bins(supply, bought), headroom.after(bought), jobs, options)
        for demand, choices in decreasing:
            _place(demand, choices, assignment)
        needed = Counter(each.shape for each in assignment.used("ordered"))
        more = Counter(each.shape for each in assignment.used("new"))
        before, bought = bought, bought + more if more else needed - Counter(supply.ordered)
        if bought == before:
            break
    plan = Plan(
        needed=frozenset(each.name for each in assignment.used("node", "booting")),
        undrain=frozenset(each.name for each in assignment.used("draining")),
        ordered=needed & Counter(supply.ordered),
        new=bought,
        jobs={shape: tuple(islice(jobs[shape], NAMED_JOBS)) for shape in bought},
        places={job_id: tuple(places) for job_id, places in assignment.places.items()},
        unmet=tuple(assignment.unmet),
    )
    return FirstFit(plan, tuple(assignment.bins))


def _bins(supply: Supply, bought: Counter[ShapeName]) -> list[SupplyBin]:
    ordered = (bought + Counter(supply.ordered)).elements()
    bins = [copy(each) for each in supply.bins]
    return sorted(
        [*bins, *(empty_bin("ordered", "", shape, supply.specs[shape]) for shape in ordered)], key=best_fit_key
    )


def _decreasing(entry: tuple[Demand, list[Shape | NoShape]]) -> tuple[object, ...]:
    demand, _ = entry
    needs = [part.need for part in demand.parts]
    free = all(
        not (need.constraint or need.node or need.excluded_nodes or gres.names_type(need.gres)) for need in needs
    )
    shared = all(not need.exclusive and need.exclusive_uid is None for need in needs)
    gpus = max(gres.gpu_count(need.gres) for need in needs)
    cpus, memory_mib = max(need.cpus for need in needs), max(need.memory_mib for need in needs)
    # Jobs that fit few of the workers choose first.
    return (-demand.nodes, -gpus, -cpus, -memory_mib, free, shared, demand.job_ids)


def _place(demand: Demand, shapes: list[Shape | NoShape], assignment: _Assignment) -> None:
    accepting = [
        _accepting(assignment, assignment.with_gres if part.need.gres else assignment.bins, part.need, shape)
        for part, shape in zip(demand.parts, shapes, strict=True)
    ]
    if demand.nodes == 1:
        placed = _place_singles(demand, shapes[0], assignment, accepting[0])
    else:
        placed = _place_gangs(demand, shapes, assignment, [list(each) for each in accepting])
    left = demand.count - placed
    if left:
        reasons = [shape.reason for shape in shapes if isinstance(shape, NoShape)]
        reason = reasons[0] if reasons else AT_QUOTA
        assignment.unmet.append(Unmet(demand, left, reason))


def _place_singles(
    demand: Demand, shape: Shape | NoShape, assignment: _Assignment, accepting: Iterable[SupplyBin]
) -> int:
    need = demand.parts[0].need
    left = demand.count
    for each in accepting:
        left -= _take(each, need, left, demand, assignment)
        if not left:
            break
    if isinstance(shape, Shape):
        while left and assignment.headroom.of(shape.name):
            left -= _take(_buy(demand, shape, assignment), need, left, demand, assignment)
    return demand.count - left


def _place_gangs(
    demand: Demand, shapes: list[Shape | NoShape], assignment: _Assignment, accepting: list[list[SupplyBin]]
) -> int:
    for placed in range(demand.count):
        gang = _gang(demand, accepting)
        missing = [
            shape
            for part, shape, found in zip(demand.parts, shapes, gang, strict=True)
            for _ in range(part.nodes - len(found))
        ]
        if not _affordable(missing, assignment.headroom):
            return placed
        for part, shape, found in zip(demand.parts, shapes, gang, strict=True):
            while isinstance(shape, Shape) and len(found) < part.nodes:
                bought = _buy(demand, shape, assignment)
                found.append(bought)
                for other, choice, candidates in zip(demand.parts, shapes, accepting, strict=True):
                    candidates += _accepting(assignment, [bought], other.need, choice)
            for each in found:
                _take(each, part.need, 1, demand, assignment)
    return demand.count


def _gang(demand: Demand, accepting: list[list[SupplyBin]]) -> list[list[SupplyBin]]:
    """The bins for each part of one job, no bin twice. A part may get fewer bins than it needs."""
    taken: set[int] = set()
    gang: list[list[SupplyBin]] = [[] for _ in demand.parts]
    # Parts that fit few of the workers choose first.
    for index in sorted(range(len(gang)), key=lambda index: (not demand.parts[index].need.node, len(accepting[index]))):
        part = demand.parts[index]
        free = (each for each in accepting[index] if id(each) not in taken and _slots(each, part.need))
        gang[index] = list(islice(free, part.nodes))
        taken.update(map(id, gang[index]))
    return gang


def _affordable(missing: list[Shape | NoShape], headroom: QuotaHeadroom) -> bool:
    left = headroom.after(Counter())
    for shape in missing:
        if isinstance(shape, NoShape) or not left.of(shape.name):
            return False
        left.take(shape.name)
    return True


def _buy(demand: Demand, shape: Shape, assignment: _Assignment) -> SupplyBin:
    bought = empty_bin("new", "", shape.name, shape.worker)
    assignment.bins.append(bought)
    if bought.gres:
        assignment.with_gres.append(bought)
    assignment.headroom.take(shape.name)
    named = assignment.jobs.setdefault(shape.name, {})
    if demand.job_ids[0] not in named:
        named.update(dict.fromkeys(demand.job_ids))
    return bought


def _accepting(
    assignment: _Assignment, bins: list[SupplyBin], need: Need, shape: Shape | NoShape
) -> Iterator[SupplyBin]:
    """The bins that can hold one job of this need and may run it.

    A registered node takes any job that is not excluded from its shape. A worker that has not registered yet is only
    for jobs of its own family, whichever job it was bought for: nobody knows which worker registers first.
    """
    if need.unreadable:
        return iter(())
    allows = parse(need.constraint)
    family = shape.family if isinstance(shape, Shape) else None
    excluded_shapes = assignment.options.chooser.excluded_shapes(need)
    any_family = assignment.options.any_family
    return (
        each
        for each in bins
        if each.cpus >= need.cpus
        and each.memory_mib >= need.memory_mib
        and each.shape not in excluded_shapes
        and (any_family or each.kind not in _COMING or family in each.features)
        and need.node in ("", each.name)
        and each.name not in need.excluded_nodes
        and allows(each.features)
        and gres.fits(need.gres, each.gres)
    )


def _slots(candidate: SupplyBin, need: Need) -> int:
    """How many jobs of this need the bin can hold side by side."""
    if (need.exclusive or need.exclusive_uid != candidate.exclusive_uid) and not candidate.empty:
        return 0
    side_by_side = min(candidate.cpus // need.cpus, candidate.memory_mib // max(need.memory_mib, 1))
    if need.gres:
        side_by_side = min(side_by_side, gres.max_concurrent(need.gres, candidate.gres))
    return min(side_by_side, 1) if need.exclusive else max(side_by_side, 0)


def _take(candidate: SupplyBin, need: Need, wanted: int, demand: Demand, assignment: _Assignment) -> int:
    count = min(_slots(candidate, need), wanted)
    if count:
        place = Place(candidate.kind, candidate.name, candidate.shape)
        assignment.places.setdefault(demand.job_ids[0], {})[place] = None
        candidate.used = True
        candidate.empty = False
        candidate.exclusive_uid = need.exclusive_uid
        candidate.cpus -= candidate.cpus if need.exclusive else count * need.cpus
        candidate.memory_mib -= candidate.memory_mib if need.exclusive else count * need.memory_mib
        if need.gres:
            candidate.gres = gres.subtract(need.gres * count, candidate.gres)
            if not any(candidate.gres.values()):
                assignment.with_gres = [each for each in assignment.with_gres if each is not candidate]
    return count
