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
        self._kept_from: dict[str, frozenset[ShapeName]] = {}

    def kept_from(self, need: Need) -> frozenset[ShapeName]:
        """The shapes whose workers are not for such a job. Where it names its node, it has that."""
        if not self.names or need.gres or need.node or need.unreadable:
            return _NONE
        return self.kept_from_constraint(need.constraint)

    def kept_from_all(self, needs: Iterable[Need]) -> frozenset[ShapeName]:
        """The shapes whose workers are for none of these jobs."""
        return self.names.intersection(*map(self.kept_from, needs))

    def kept_from_constraint(self, constraint: str) -> frozenset[ShapeName]:
        """The same for a job that asks for no GPUs. Raises UnreadableConstraint."""
        if constraint not in self._kept_from:
            allows = parse(constraint)
            self._kept_from[constraint] = self.names if any(map(allows, self._others)) else _NONE
        return self._kept_from[constraint]
