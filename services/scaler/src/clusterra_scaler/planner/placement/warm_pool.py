"""The warm pool: workers of a shape that are kept while no job needs them."""

from collections import Counter
from dataclasses import replace

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.registry import ClusterBinding

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.placement.plan import Plan


def warm_pool_of(binding: ClusterBinding) -> Counter[ShapeName]:
    """The size of the warm pool by shape. A paused cluster has none; shapes that left the catalogue are skipped."""
    if binding.state == "paused":
        return Counter()
    return Counter({shape: count for shape, count in binding.policy.warm.items() if shape in binding.catalogue})


def with_warm_pool(plan: Plan, context: DecisionContext) -> Plan:
    """The plan with a full warm pool: it cancels drains and keeps orders before it buys.

    Busy workers, booting ones and those bought for jobs count. A shape with an open breaker gets no new worker, and one
    at a time once it may be probed.
    """
    warm_pool = warm_pool_of(context.observation.binding)
    if not warm_pool:
        return plan
    supply = context.supply
    usable = Counter(each.shape for each in supply.bins if each.kind != "draining" or each.name in plan.undrain)
    booting = Counter(each.shape for each in supply.bins if each.kind == "booting")
    draining = sorted(
        (each.name, each.shape) for each in supply.bins if each.kind == "draining" and each.name not in plan.undrain
    )
    left = context.headroom.after(Counter(plan.new))
    probes = {
        breaker.shape: int(not breaker.is_open(context.observation.now))
        for breaker in context.state.breakers
        if breaker.tripped
    }
    undrain = set(plan.undrain)
    ordered, new, warm = Counter(plan.ordered), Counter(plan.new), Counter[ShapeName]()
    for shape, count in sorted(warm_pool.items()):
        missing = count - usable[shape] - ordered[shape] - new[shape]
        reused = [name for name, of_shape in draining if of_shape == shape][: max(missing, 0)]
        undrain.update(reused)
        missing -= len(reused)
        if shape in probes:
            missing = min(missing, probes[shape] - booting[shape] - ordered[shape] - new[shape])
        kept = max(min(missing, supply.ordered.get(shape, 0) - ordered[shape]), 0)
        ordered[shape] += kept
        missing -= kept
        while missing > 0 and left.of(shape):
            left.take(shape)
            warm[shape] += 1
            missing -= 1
    return replace(plan, undrain=frozenset(undrain), ordered=+ordered, new=new + warm, warm=warm)
