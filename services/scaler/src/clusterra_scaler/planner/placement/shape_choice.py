"""Which shape a new worker gets, for all pending jobs at once, by the documented families."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts import gres
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shape_fit import GpuShapes, holds
from clusterra_contracts.shapes import Catalogue, Family, Shape

COMPUTE_UP_TO_MIB_PER_CPU = 3 * 1024
GENERAL_UP_TO_MIB_PER_CPU = 6 * 1024

_BY_MEMORY: tuple[Family, ...] = ("compute", "general", "memory")


@dataclass(frozen=True, slots=True)
class NoShape:
    """No shape of the catalogue can run the job; the reason is for people."""

    reason: str


class ShapeChooser(Protocol):
    """Chooses the shapes of new workers."""

    def choose(self, needs: Sequence[Need], catalogue: Catalogue) -> list[Shape | NoShape]:
        """The shape of the workers to buy for each need, in the same order."""
        ...

    def excluded_shapes(self, need: Need) -> frozenset[ShapeName]:
        """The shapes whose workers must not run it, existing or new."""
        ...


class FamilyShapes:
    """The family by memory per CPU, the size by the family's biggest pending job, as documented.

    At most 3 GiB per CPU is `compute`, at most 6 `general`, more `memory`. A job that no shape of its family can hold
    (general has 4 GiB per CPU, a job of 32 CPUs may ask for 6) goes to the next family that can. A constraint is
    honoured: a job that may not use the family's size gets its own smallest shape and does not set that size.

    A job that asks for GPUs gets the cheapest shape that holds it, and so does one whose constraint allows nothing but
    shapes with GPUs.
    """

    def __init__(self, whole: Catalogue) -> None:
        """`whole`: all shapes of the cluster, including those that cannot be bought now."""
        self._gpu_shapes = GpuShapes(whole)

    def excluded_shapes(self, need: Need) -> frozenset[ShapeName]:
        """See ShapeChooser."""
        return self._gpu_shapes.excluded_shapes(need)

    def choose(self, needs: Sequence[Need], catalogue: Catalogue) -> list[Shape | NoShape]:
        """See ShapeChooser."""
        families = {family: _of_family(catalogue, family) for family in _BY_MEMORY}
        with_gpus = sorted((shape for shape in catalogue.shapes if shape.gpu_count), key=_price)
        candidates = [self._candidates(need, families, with_gpus) for need in needs]
        biggest: dict[Family, Shape] = {}
        for need, fitting in zip(needs, candidates, strict=True):
            if not isinstance(fitting, list) or fitting != _that_hold(need, families[fitting[0].family]):
                continue
            smallest = fitting[0]
            so_far = biggest.get(smallest.family)
            if so_far is None or _size(smallest) > _size(so_far):
                biggest[smallest.family] = smallest
        return [
            _sized(fitting, biggest.get(fitting[0].family)) if isinstance(fitting, list) else fitting
            for fitting in candidates
        ]

    def _candidates(
        self, need: Need, families: Mapping[Family, list[Shape]], with_gpus: Sequence[Shape]
    ) -> list[Shape] | Shape | NoShape:
        """The shapes of one family that can run it, smallest first and at least one; or the one shape to use."""
        if need.unreadable:
            return NoShape(f"what it asks for cannot be honoured: {need.unreadable}")
        if need.node:
            return NoShape(f"it asks for the node {need.node}, which no new worker can be")
        allows = parse(need.constraint)
        if with_gpus and not self.excluded_shapes(need):
            able = [shape for shape in with_gpus if holds(shape, need) and allows(shape.worker.features)]
            if able:
                return able[0]
        if need.gres:
            return NoShape(_without_gpus(need, with_gpus))
        first = _BY_MEMORY.index(family_of(need))
        # Families with more memory come first: they hold what the own family cannot. Those with less come last.
        for family in (*_BY_MEMORY[first:], *reversed(_BY_MEMORY[:first])):
            fitting = [shape for shape in _that_hold(need, families[family]) if allows(shape.worker.features)]
            if fitting:
                return fitting
        others = with_gpus if not self.excluded_shapes(need) else ()
        shapes = (*(shape for family in families.values() for shape in family), *others)
        if not any(allows(shape.worker.features) for shape in shapes):
            return NoShape(f"no shape has the features {need.constraint!r}")
        which = "no shape without GPUs" if any(holds(shape, need) for shape in with_gpus) else "no shape"
        return NoShape(f"{which} has {need.cpus} CPUs and {need.memory_mib} MiB on one node")


def family_of(need: Need) -> Family:
    """The family of a job by its memory per CPU."""
    if need.memory_mib <= COMPUTE_UP_TO_MIB_PER_CPU * need.cpus:
        return "compute"
    if need.memory_mib <= GENERAL_UP_TO_MIB_PER_CPU * need.cpus:
        return "general"
    return "memory"


def _price(shape: Shape) -> tuple[float, int, int, str]:
    return (shape.usd_per_hour, *_size(shape), shape.name)


def _size(shape: Shape) -> tuple[int, int]:
    return (shape.vcpu, shape.memory_mib)


def _of_family(catalogue: Catalogue, family: Family) -> list[Shape]:
    return sorted((shape for shape in catalogue.shapes if shape.family == family), key=_size)


def _that_hold(need: Need, shapes: Iterable[Shape]) -> list[Shape]:
    return [shape for shape in shapes if holds(shape, need)]


def _without_gpus(need: Need, with_gpus: Sequence[Shape]) -> str:
    """The reason why no shape can run a job that asks for generic resources."""
    asked = ", ".join(map(str, need.gres))
    having = [shape for shape in with_gpus if gres.fits(need.gres, gres.parse_spec(shape.worker.gres))]
    if not having:
        return f"no shape has {asked}"
    allows = parse(need.constraint)
    if not any(allows(shape.worker.features) for shape in having):
        return f"no shape with {asked} has the features {need.constraint!r}"
    return f"no shape has {asked} with {need.cpus} CPUs and {need.memory_mib} MiB on one node"


def _sized(fitting: list[Shape], biggest: Shape | None) -> Shape:
    return biggest if biggest is not None and biggest in fitting else fitting[0]
