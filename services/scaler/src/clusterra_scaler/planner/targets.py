"""The desired number of workers of each shape, and the workers to remove."""

from clusterra_contracts.scale import ShapeTarget

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.scale_down.drain import ScaleDown


def targets_of(context: DecisionContext, plan: Plan | None, scale_down: ScaleDown) -> tuple[ShapeTarget, ...]:
    """The targets of all shapes that were ever wanted or have workers.

    Without a plan the numbers stay. Without a current list of workers from the edge they only grow.
    """
    state, supply, observation = context.state, context.supply, context.observation
    shapes = [target.shape for target in state.targets]
    shapes += sorted((supply.active_by_shape.keys() | (plan.new if plan else {}).keys()) - set(shapes))
    targets: list[ShapeTarget] = []
    for shape in shapes:
        before = state.target(shape) or ShapeTarget(shape=shape, worker=supply.specs[shape], replicas=0)
        victims, unregistered = (
            {name for name in names if supply.workers[name].shape == shape}
            for names in (scale_down.removable, scale_down.unregistered)
        )
        replicas = before.replicas
        if plan is not None:
            new = plan.new.get(shape, 0)
            # Workers taken back are not counted among the active ones yet.
            leaving = (victims | unregistered) - state.taken_back.keys()
            expected = supply.active_by_shape[shape] - len(leaving) + plan.ordered.get(shape, 0) + new
            if observation.edge.is_fresh(observation.now):
                replicas = expected
            elif new:
                replicas = max(replicas, expected)
        targets.append(
            ShapeTarget(
                shape=shape,
                worker=supply.specs[shape],
                replicas=replicas,
                victims=tuple(sorted((set(before.victims) - scale_down.forgotten) | victims)),
                unregistered=tuple(sorted((set(before.unregistered) - scale_down.forgotten) | unregistered)),
            )
        )
    return tuple(targets)
