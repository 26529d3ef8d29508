"""Quota headroom: how many more workers a cluster may buy within the limits of its policy."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.packing.limits import ROUNDING_USD, Limits


@dataclass(slots=True)
class QuotaHeadroom:
    """The workers that may still be bought. `take` counts it down in place."""

    anywhere: int
    """Workers of any shape."""
    reserved: Counter[ShapeName]
    """Workers by shape that an earlier desired state ordered and that the edge may be about to start."""
    of_shape: Mapping[ShapeName, int] = field(default_factory=dict)
    """Workers of each shape that has a limit of its own."""
    usd_per_hour: float | None = None
    """The cost that all new workers may have together; None: no limit."""
    prices: Mapping[ShapeName, float] = field(default_factory=dict)
    """USD per hour by shape. A shape that is not listed costs nothing."""

    def of(self, shape: ShapeName) -> int:
        """How many workers of this shape may be bought."""
        limits = [self.anywhere, self.of_shape.get(shape, self.anywhere)]
        price = self.prices.get(shape, 0.0)
        if self.usd_per_hour is not None and price > 0.0:
            limits.append(int((self.usd_per_hour + ROUNDING_USD) // price))
        return max(0, min(limits) + self.reserved[shape])

    def take(self, shape: ShapeName) -> None:
        """Counts the purchase of one worker."""
        if self.reserved[shape] > 0:
            # A reserved worker is counted already.
            self.reserved[shape] -= 1
            return
        self.anywhere -= 1
        if shape in self.of_shape:
            self.of_shape = {**self.of_shape, shape: self.of_shape[shape] - 1}
        if self.usd_per_hour is not None:
            self.usd_per_hour -= self.prices.get(shape, 0.0)

    def limits(self, shapes: Iterable[ShapeName]) -> Limits:
        """The limits of the packing, which may buy these shapes. Reserved workers are left out.

        They could be bought only after the edge was told to start fewer of them, so the same observation would give
        two decisions, one after the other. They are free again as soon as the edge has acknowledged the lower number.
        """
        return Limits(
            workers=max(0, self.anywhere),
            of_shape={shape: max(0, self.of_shape[shape]) for shape in shapes if shape in self.of_shape},
            usd_per_hour=self.usd_per_hour,
        )

    def after(self, bought: Counter[ShapeName]) -> "QuotaHeadroom":
        """A copy, after these workers are bought."""
        left = replace(self, reserved=Counter(self.reserved))
        for shape in bought.elements():
            left.take(shape)
        return left


def ceilings(observation: Observation, state: FleetState) -> Counter[ShapeName]:
    """The most workers of each shape that the edge may be acting on: it applies the last desired state it received."""
    applied = observation.edge.applied
    acknowledged = applied is not None and (applied.fence, applied.generation) == (state.fence, state.generation)
    asked = Counter({target.shape: target.replicas for target in state.targets})
    return asked if acknowledged else asked | Counter(state.ceilings)


def quota_headroom(observation: Observation, state: FleetState, supply: Supply) -> QuotaHeadroom:
    """The headroom under the limits of the policy, with existing, leaving and possibly starting workers counted."""
    policy = observation.binding.policy
    asked = ceilings(observation, state)
    counted = supply.active_by_shape + Counter(supply.ordered)
    taken = asked | counted
    prices = {shape.name: shape.usd_per_hour for shape in observation.binding.catalogue.shapes}
    all_there = taken + supply.leaving_by_shape
    usd_per_hour = None
    if policy.usd_per_hour is not None:
        usd_per_hour = policy.usd_per_hour - sum(count * prices.get(shape, 0.0) for shape, count in all_there.items())
    return QuotaHeadroom(
        anywhere=policy.max_workers - all_there.total(),
        reserved=asked - counted,
        of_shape={shape: most - all_there[shape] for shape, most in policy.most.items()},
        usd_per_hour=usd_per_hour,
        prices=prices,
    )
