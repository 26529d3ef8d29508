"""How many workers may still be bought, so that a cluster never has more than its `max_workers`."""

from collections import Counter
from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.seen import Seen
from clusterra_scaler.planner.state import FleetState
from clusterra_scaler.planner.supply import Supply


@dataclass(slots=True)
class Allowance:
    """How many more; it counts down as workers are bought."""

    anywhere: int
    """Workers of any shape."""
    reserved: Counter[ShapeName]
    """Workers of one shape that an earlier desired state asked for, and that the edge may be about to start."""

    def of(self, shape: ShapeName) -> int:
        """How many workers of this shape may be bought."""
        return max(0, self.anywhere + self.reserved[shape])

    def take(self, shape: ShapeName) -> None:
        """Buy one."""
        if self.reserved[shape] > 0:
            self.reserved[shape] -= 1
        else:
            self.anywhere -= 1

    def after(self, bought: Counter[ShapeName]) -> "Allowance":
        """Another one, with these workers bought."""
        left = Allowance(self.anywhere, Counter(self.reserved))
        for shape in bought.elements():
            left.take(shape)
        return left


def ceilings(seen: Seen, state: FleetState) -> Counter[ShapeName]:
    """The most workers of each shape that the edge may be acting on: it obeys the last state it has received."""
    applied = seen.edge.applied
    acknowledged = applied is not None and (applied.fence, applied.generation) == (state.fence, state.generation)
    asked = Counter({target.shape: target.replicas for target in state.targets})
    return asked if acknowledged else asked | Counter(state.ceilings)


def allowance_of(seen: Seen, state: FleetState, supply: Supply) -> Allowance:
    """What is left of `max_workers`, counting all that are there, on their way out or possibly being started."""
    asked = ceilings(seen, state)
    counted = supply.standing + Counter(supply.ordered)
    taken = (asked | counted).total() + supply.leaving
    return Allowance(seen.binding.policy.max_workers - taken, asked - counted)
