"""The policy `family`, as documented: first fit, with shapes by memory per CPU."""

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.placement.first_fit import FirstFitOptions, first_fit
from clusterra_scaler.planner.placement.gpu_node_extra import gpu_extras, gpu_nodes
from clusterra_scaler.planner.placement.node_extra import open_all
from clusterra_scaler.planner.placement.policy import Placement, PlacementRequest
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes


class FamilyPolicy:
    """Buys by family and keeps idle workers for a fixed time. It is the reference for other policies."""

    def plan(self, request: PlacementRequest) -> Placement:
        """See Policy. No worker is closed to jobs, except workers with GPUs to jobs that ask for none."""
        context = request.context
        snapshot = context.observation.snapshot
        options = FirstFitOptions(
            FamilyShapes(context.observation.binding.catalogue),
            # After a launch failure a coming worker may have been bought for jobs of another family.
            any_family=bool(context.state.breakers),
        )
        fitted = first_fit(request.demands, request.supply, request.catalogue, request.headroom, options)
        extras = open_all(snapshot, gpu_nodes(snapshot, context.gpu_shapes))
        return Placement(fitted.plan, (), extras | gpu_extras(snapshot, context.gpu_shapes))

    def keep_alive(self, node: NodeState, context: DecisionContext) -> tuple[float, float]:
        """See Policy. The time is the policy's `idle_seconds`."""
        observation = context.observation
        idle_seconds = (observation.now - context.history.idle_since(node, observation.now)).total_seconds()
        return idle_seconds, observation.binding.policy.idle_seconds

    def keep_unregistered(self, name: WorkerName, context: DecisionContext) -> float | None:
        """See Policy. Every worker boots to its end."""
        return None
