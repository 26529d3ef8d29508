"""Which shapes could run a job: those that hold it, without those that are reserved for jobs with GPUs.

A job without GPUs must not use a worker with GPUs, which costs many times what the job uses of it, unless its
constraint allows no other shape. All shapes of the catalogue count, also those that are unavailable at the moment: a
shortage of cheap workers is no reason to pay for expensive ones.
"""

from collections.abc import Iterable

from clusterra_contracts import gres
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Fits, Need
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shapes import Catalogue, Shape, WorkerSpec

_NONE: frozenset[ShapeName] = frozenset()


class GpuShapes:
    """The shapes with GPUs in a cluster's catalogue, and the jobs that must not use them."""

    def __init__(self, catalogue: Catalogue) -> None:
        """`catalogue` is the complete one, including shapes that are unavailable at the moment."""
        self.names = frozenset(shape.name for shape in catalogue.shapes if shape.gpu_count)
        self._features_without_gpus = [shape.worker.features for shape in catalogue.shapes if not shape.gpu_count]
        self._excluded_by_constraint: dict[str, frozenset[ShapeName]] = {}

    def excluded_shapes(self, need: Need) -> frozenset[ShapeName]:
        """The shapes whose workers a job must not use. A job that names its node may use that node."""
        if not self.names or need.gres or need.node or need.unreadable:
            return _NONE
        return self.excluded_by_constraint(need.constraint)

    def excluded_for_all(self, needs: Iterable[Need]) -> frozenset[ShapeName]:
        """The shapes whose workers none of these jobs may use."""
        return self.names.intersection(*map(self.excluded_shapes, needs))

    def excluded_by_constraint(self, constraint: str) -> frozenset[ShapeName]:
        """The shapes that a job without GPUs must not use, by its constraint. Raises UnreadableConstraint."""
        if constraint not in self._excluded_by_constraint:
            allows = parse(constraint)
            allows_others = any(map(allows, self._features_without_gpus))
            self._excluded_by_constraint[constraint] = self.names if allows_others else _NONE
        return self._excluded_by_constraint[constraint]


def holds(shape: Shape, need: Need) -> bool:
    """Whether an empty worker of the shape has enough CPUs, memory and generic resources."""
    return _holds(shape.worker, gres.parse_spec(shape.worker.gres), need)


def new_workers(catalogue: Catalogue, whole: Catalogue | None = None) -> Fits:
    """A predicate: whether a new worker of any shape of the catalogue could run a need.

    `whole` is the catalogue with the shapes that are unavailable at the moment, too, if it is another one.
    """
    workers = [(shape.name, shape.worker, gres.parse_spec(shape.worker.gres)) for shape in catalogue.shapes]
    gpu_shapes = GpuShapes(whole or catalogue)

    def fits(need: Need) -> bool:
        allows = parse(need.constraint)
        excluded_shapes = gpu_shapes.excluded_shapes(need)
        return any(
            _holds(worker, has, need) and name not in excluded_shapes and allows(worker.features)
            for name, worker, has in workers
        )

    return fits


def _holds(worker: WorkerSpec, has: gres.GresCounts, need: Need) -> bool:
    return need.cpus <= worker.cpus and need.memory_mib <= worker.memory_mib and gres.fits(need.gres, has)
