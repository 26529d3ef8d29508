"""The workers of a shape that stand also while nothing needs them."""

from collections import Counter
from dataclasses import replace

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.quota import quota_headroom


def warm_pool_of(observation: Observation) -> Counter[ShapeName]:
    """By shape. A paused cluster has none, and what the catalogue has no more cannot be bought."""
    binding = observation.binding
    if binding.state == "paused":
        return Counter()
    return Counter({shape: count for shape, count in binding.policy.warm.items() if shape in binding.catalogue})


def with_warm_pool(plan: Plan, observation: Observation, state: FleetState, supply: Supply) -> Plan:
    """The plan with what is missing of the floor: drains are taken back and orders kept before anything is bought.

    Workers that are busy, booting or bought for jobs count. Of a shape whose breaker is open none is to come, and one
    at a time once it may be tried again.
    """
    floor = warm_pool_of(observation)
    if not floor:
        return plan
    usable = Counter(each.shape for each in supply.bins if each.kind != "draining" or each.name in plan.undrain)
    booting = Counter(each.shape for each in supply.bins if each.kind == "booting")
    draining = sorted(
        (each.name, each.shape) for each in supply.bins if each.kind == "draining" and each.name not in plan.undrain
    )
    left = quota_headroom(observation, state, supply).after(Counter(plan.new))
    tries = {breaker.shape: int(not breaker.pauses(observation.now)) for breaker in state.breakers if breaker.open}
    undrain = set(plan.undrain)
    ordered, new, warm = Counter(plan.ordered), Counter(plan.new), Counter[ShapeName]()
    for shape, count in sorted(floor.items()):
        missing = count - usable[shape] - ordered[shape] - new[shape]
        back = [name for name, of_shape in draining if of_shape == shape][: max(missing, 0)]
        undrain.update(back)
        missing -= len(back)
        if shape in tries:
            missing = min(missing, tries[shape] - booting[shape] - ordered[shape] - new[shape])
        kept = max(min(missing, supply.ordered.get(shape, 0) - ordered[shape]), 0)
        ordered[shape] += kept
        missing -= kept
        while missing > 0 and left.of(shape):
            left.take(shape)
            warm[shape] += 1
            missing -= 1
    return replace(plan, undrain=frozenset(undrain), ordered=+ordered, new=new + warm, warm=warm)
