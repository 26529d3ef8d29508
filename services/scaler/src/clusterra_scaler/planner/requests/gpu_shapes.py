"""Which workers with GPUs are kept for the jobs that ask for GPUs.

A job that asks for none leaves workers with GPUs alone, for they cost many times what it uses of them, unless its
constraint allows nothing else. That is a matter of all shapes of a cluster, also of those that cannot be had now: for
want of cheap workers nobody wishes to pay for dear ones.
"""

from collections.abc import Iterable

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.requests.constraints import parse
from clusterra_scaler.planner.requests.demand import Need

_NONE: frozenset[ShapeName] = frozenset()


class GpuShapes:
    """Those of a cluster's whole catalogue."""

    def __init__(self, whole: Catalogue) -> None:
        self.names = frozenset(shape.name for shape in whole.shapes if shape.gpu_count)
        self._others = [shape.worker.features for shape in whole.shapes if not shape.gpu_count]
        self._excluded: dict[str, frozenset[ShapeName]] = {}

    def excluded_shapes(self, need: Need) -> frozenset[ShapeName]:
        """The shapes whose workers are not for such a job. Where it names its node, it has that."""
        if not self.names or need.gres or need.node or need.unreadable:
            return _NONE
        return self.excluded_by_constraint(need.constraint)

    def excluded_for_all(self, needs: Iterable[Need]) -> frozenset[ShapeName]:
        """The shapes whose workers are for none of these jobs."""
        return self.names.intersection(*map(self.excluded_shapes, needs))

    def excluded_by_constraint(self, constraint: str) -> frozenset[ShapeName]:
        """The same for a job that asks for no GPUs. Raises UnreadableConstraint."""
        if constraint not in self._excluded:
            allows = parse(constraint)
            self._excluded[constraint] = self.names if any(map(allows, self._others)) else _NONE
        return self._excluded[constraint]
