"""Which shape a new worker gets. A policy answers for all pending jobs at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.shapes import Catalogue, Family, Shape

from clusterra_scaler.planner.constraints import parse
from clusterra_scaler.planner.demand import Fits, Need

COMPUTE_UP_TO_MIB_PER_CPU = 3 * 1024
GENERAL_UP_TO_MIB_PER_CPU = 6 * 1024

_BY_MEMORY: tuple[Family, ...] = ("compute", "general", "memory")


@dataclass(frozen=True, slots=True)
class NoShape:
    """Nothing in the catalogue can run it; the reason is for the person who asked."""

    reason: str


class Policy(Protocol):
    """Chooses shapes for new workers."""

    def choose(self, needs: Sequence[Need], catalogue: Catalogue) -> list[Shape | NoShape]:
        """For each need the shape of the workers to buy for it, in the same order."""
        ...


class FamilyPolicy:
    """The documented policy `family`: the family by memory per CPU, the size by the family's biggest pending job.

    At most 3 GiB per CPU is `compute`, at most 6 `general`, more `memory`. A job that no shape of its family can hold
    (general has 4 GiB per CPU, a job of 32 CPUs may ask for 6) goes to the next family that can. A constraint is
    honoured; jobs that it keeps from the family's size get their own smallest shape and do not set that size.
    """

    def choose(self, needs: Sequence[Need], catalogue: Catalogue) -> list[Shape | NoShape]:
        """See Policy."""
        families = {family: _of_family(catalogue, family) for family in _BY_MEMORY}
        candidates = [_candidates(need, families) for need in needs]
        biggest: dict[Family, Shape] = {}
        for need, fitting in zip(needs, candidates, strict=True):
            if isinstance(fitting, NoShape) or fitting != _that_hold(need, families[fitting[0].family]):
                continue
            smallest = fitting[0]
            so_far = biggest.get(smallest.family)
            if so_far is None or _size(smallest) > _size(so_far):
                biggest[smallest.family] = smallest
        return [
            fitting if isinstance(fitting, NoShape) else _sized(fitting, biggest.get(fitting[0].family))
            for fitting in candidates
        ]


def family_of(need: Need) -> Family:
    """The family of a job by its memory per CPU."""
    if need.memory_mib <= COMPUTE_UP_TO_MIB_PER_CPU * need.cpus:
        return "compute"
    if need.memory_mib <= GENERAL_UP_TO_MIB_PER_CPU * need.cpus:
        return "general"
    return "memory"


def holds(shape: Shape, need: Need) -> bool:
    """Whether an empty worker of the shape has the CPUs and the memory."""
    return need.cpus <= shape.worker.cpus and need.memory_mib <= shape.worker.memory_mib


def new_workers(catalogue: Catalogue) -> Fits:
    """Whether a new worker of any shape could have what is needed of a node."""
    workers = [shape.worker for shape in catalogue.shapes]

    def fits(need: Need) -> bool:
        if need.gres:
            return False
        allows = parse(need.constraint)
        return any(
            need.cpus <= worker.cpus and need.memory_mib <= worker.memory_mib and allows(worker.features)
            for worker in workers
        )

    return fits


def _size(shape: Shape) -> tuple[int, int]:
    return (shape.vcpu, shape.memory_mib)


def _of_family(catalogue: Catalogue, family: Family) -> list[Shape]:
    return sorted((shape for shape in catalogue.shapes if shape.family == family), key=_size)


def _that_hold(need: Need, shapes: Iterable[Shape]) -> list[Shape]:
    return [shape for shape in shapes if holds(shape, need)]


def _candidates(need: Need, families: dict[Family, list[Shape]]) -> list[Shape] | NoShape:
    """The shapes of one family that can run it, smallest first; never an empty list."""
    if need.unreadable:
        return NoShape(f"what it asks for cannot be honoured: {need.unreadable}")
    if need.node:
        return NoShape(f"it asks for the node {need.node}, which no new worker can be")
    if need.gres:
        return NoShape(f"no shape has {', '.join(map(str, need.gres))}")
    allows = parse(need.constraint)
    first = _BY_MEMORY.index(family_of(need))
    # Families with more memory hold whatever their own smaller sizes miss; those with less come last.
    for family in (*_BY_MEMORY[first:], *reversed(_BY_MEMORY[:first])):
        fitting = [shape for shape in _that_hold(need, families[family]) if allows(shape.worker.features)]
        if fitting:
            return fitting
    if not any(allows(shape.worker.features) for shapes in families.values() for shape in shapes):
        return NoShape(f"no shape has the features {need.constraint!r}")
    return NoShape(f"no shape has {need.cpus} CPUs and {need.memory_mib} MiB on one node")


def _sized(fitting: list[Shape], biggest: Shape | None) -> Shape:
    return biggest if biggest is not None and biggest in fitting else fitting[0]
