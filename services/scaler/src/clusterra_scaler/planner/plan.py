"""Demand on supply: what of the fleet is needed, and what must be bought. First fit, the biggest jobs first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice

from clusterra_contracts.identity import JobId, ShapeName, WorkerName
from clusterra_contracts.shapes import Catalogue, Shape

from clusterra_scaler.planner.allowance import Allowance
from clusterra_scaler.planner.constraints import UnreadableConstraint, parse
from clusterra_scaler.planner.demand import Demand, Need
from clusterra_scaler.planner.shapes import NoShape, Policy
from clusterra_scaler.planner.supply import Bin, Kind, Supply, best_fit, spec_bin

NAMED_JOBS = 100
"""How many jobs a decision names at most."""

_COMING = frozenset({"booting", "ordered", "new"})
_ROUNDS = 8
"""Nearly always two are enough: one that buys and one that finds it enough."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """Jobs that get no worker now, and why in words."""

    demand: Demand
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the pending jobs use, by the order in which Slurm could have it."""

    needed: frozenset[WorkerName]
    """Nodes and booting workers that jobs wait for or will go to."""
    undrain: frozenset[WorkerName]
    """Draining nodes that are wanted again."""
    ordered: Mapping[ShapeName, int]
    """Of the workers ordered before, how many are still needed."""
    new: Mapping[ShapeName, int]
    jobs: Mapping[ShapeName, tuple[JobId, ...]]
    """For which jobs new workers are bought; a group of equal jobs is named whole."""
    unmet: tuple[Unmet, ...]


@dataclass(slots=True)
class _Filling:
    """Bins as they fill up."""

    bins: list[Bin]
    allowance: Allowance
    jobs: dict[ShapeName, dict[JobId, None]]
    unmet: list[Unmet] = field(default_factory=list)

    def used(self, *kinds: Kind) -> list[Bin]:
        return [each for each in self.bins if each.used and each.kind in kinds]


def plan(demands: Sequence[Demand], supply: Supply, policy: Policy, catalogue: Catalogue, allowance: Allowance) -> Plan:
    """Place the demands, first on the supply, then on new workers. A job of several nodes is placed whole or not at
    all.

    What is bought is placed again as supply, and what then stays unused is given back, until nothing changes any
    more: so the next decision, which finds it ordered, comes to the same.
    """
    shapes = policy.choose([demand.need for demand in demands], catalogue)
    decreasing = sorted(zip(demands, shapes, strict=True), key=_decreasing)
    jobs: dict[ShapeName, dict[JobId, None]] = {}
    bought: Counter[ShapeName] = Counter()
    for _ in range(_ROUNDS):
        filling = _Filling(_bins(supply, bought), allowance.after(bought), jobs)
        for demand, shape in decreasing:
            _place(demand, shape, filling)
        needed = Counter(each.shape for each in filling.used("ordered"))
        more = Counter(each.shape for each in filling.used("new"))
        before, bought = bought, bought + more if more else needed - Counter(supply.ordered)
        if bought == before:
            break
    return Plan(
        needed=frozenset(each.name for each in filling.used("node", "booting")),
        undrain=frozenset(each.name for each in filling.used("draining")),
        ordered=needed & Counter(supply.ordered),
        new=bought,
        jobs={shape: tuple(islice(jobs[shape], NAMED_JOBS)) for shape in bought},
        unmet=tuple(filling.unmet),
    )


def _bins(supply: Supply, bought: Counter[ShapeName]) -> list[Bin]:
    ordered = (bought + Counter(supply.ordered)).elements()
    bins = [copy(each) for each in supply.bins]
    return sorted([*bins, *(spec_bin("ordered", "", shape, supply.specs[shape]) for shape in ordered)], key=best_fit)


def _decreasing(entry: tuple[Demand, Shape | NoShape]) -> tuple[object, ...]:
    demand, _ = entry
    need = demand.need
    # Jobs that can use few of the workers choose first.
    return (-demand.nodes, -need.cpus, -need.memory_mib, not need.constraint, not need.exclusive, demand.job_ids)


def _place(demand: Demand, shape: Shape | NoShape, filling: _Filling) -> None:
    accepting = _accepting(filling.bins, demand.need, shape)
    place = _place_singles if demand.nodes == 1 else _place_gangs
    left = demand.count - place(demand, shape, filling, accepting)
    if left:
        reason = shape.reason if isinstance(shape, NoShape) else "the cluster has as many workers as it may have"
        filling.unmet.append(Unmet(demand, left, reason))


def _place_singles(demand: Demand, shape: Shape | NoShape, filling: _Filling, accepting: list[Bin]) -> int:
    left = demand.count
    for each in accepting:
        left -= _take(each, demand.need, left)
    if isinstance(shape, Shape):
        while left and filling.allowance.of(shape.name):
            left -= _take(_buy(demand, shape, filling), demand.need, left)
    return demand.count - left


def _place_gangs(demand: Demand, shape: Shape | NoShape, filling: _Filling, accepting: list[Bin]) -> int:
    for placed in range(demand.count):
        nodes = [each for each in accepting if _slots(each, demand.need)][: demand.nodes]
        missing = demand.nodes - len(nodes)
        if missing:
            if isinstance(shape, NoShape) or missing > filling.allowance.of(shape.name):
                return placed
            bought = [_buy(demand, shape, filling) for _ in range(missing)]
            nodes += bought
            accepting += bought
        for each in nodes:
            _take(each, demand.need, 1)
    return demand.count


def _buy(demand: Demand, shape: Shape, filling: _Filling) -> Bin:
    bought = spec_bin("new", "", shape.name, shape.worker)
    filling.bins.append(bought)
    filling.allowance.take(shape.name)
    named = filling.jobs.setdefault(shape.name, {})
    if demand.job_ids[0] not in named:
        named.update(dict.fromkeys(demand.job_ids))
    return bought


def _accepting(bins: list[Bin], need: Need, shape: Shape | NoShape) -> list[Bin]:
    """Those that have room for one and may run it.

    A node takes any job. A worker that is still to come is for jobs of its own family, whoever it was bought for:
    which of them will register first is not known.
    """
    if need.gres:
        return []
    try:
        allows = parse(need.constraint)
    except UnreadableConstraint:
        return []
    family = shape.family if isinstance(shape, Shape) else None
    return [
        each
        for each in bins
        if each.cpus >= need.cpus
        and each.memory_mib >= need.memory_mib
        and (each.kind not in _COMING or family in each.features)
        and allows(each.features)
    ]


def _slots(candidate: Bin, need: Need) -> int:
    """How many jobs of this need have room side by side."""
    if need.exclusive and not candidate.empty:
        return 0
    side_by_side = min(candidate.cpus // need.cpus, candidate.memory_mib // max(need.memory_mib, 1))
    return min(side_by_side, 1) if need.exclusive else max(side_by_side, 0)


def _take(candidate: Bin, need: Need, wanted: int) -> int:
    count = min(_slots(candidate, need), wanted)
    if count:
        candidate.used = True
        candidate.empty = False
        candidate.cpus -= candidate.cpus if need.exclusive else count * need.cpus
        candidate.memory_mib -= candidate.memory_mib if need.exclusive else count * need.memory_mib
    return count
