"""One decision: from everything that is known of a cluster to its next desired state and what Slurm is asked to do.

Pure, and level-triggered: the same inputs give the same state, and no new generation. At a bound, or where a shape is
tried again that could not be had, one or two generations may follow from the same look before it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterra_contracts.events import ScaleFact, ShapeChange
from clusterra_contracts.rpc.slurm import SetExtra, Undrain
from clusterra_contracts.scale import ShapeTarget
from clusterra_contracts.shapes import Catalogue

from clusterra_scaler.planner.changes import changes_of
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.breakers import Breaker, breakers_after
from clusterra_scaler.planner.observed.launch_failures import failures, started
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.registration import recovered
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, supply_of
from clusterra_scaler.planner.placement.failover import Failover, plan_around
from clusterra_scaler.planner.placement.family_policy import FamilyPolicy, new_workers
from clusterra_scaler.planner.placement.first_fit import first_fit
from clusterra_scaler.planner.placement.gpu_node_extra import gpu_extras, gpu_nodes
from clusterra_scaler.planner.placement.node_extra import opened
from clusterra_scaler.planner.placement.packing_policy import Placement, packing_plan
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.quota import QuotaHeadroom, ceilings, quota_headroom
from clusterra_scaler.planner.placement.warm_pool import with_warm_pool
from clusterra_scaler.planner.requests.demand import Demand, startable
from clusterra_scaler.planner.requests.gpu_shapes import GpuShapes
from clusterra_scaler.planner.scale_down.drain import Action, ScaleDown, plan_scale_down
from clusterra_scaler.planner.scale_down.idle_tracking import with_idleness


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, why it differs, and what Slurm must be asked once it is recorded."""

    state: FleetState
    changes: tuple[ShapeChange, ...]
    """Empty when nothing new is desired; then the generation is the old one."""
    actions: tuple[Action, ...]
    observation_history: ObservationHistory
    plan: Plan | None
    """None when the queue or the nodes could not be read."""

    @property
    def fact(self) -> ScaleFact:
        """The event of a change."""
        return ScaleFact(
            generation=self.state.generation,
            fence=self.state.fence,
            snapshot_generation=self.state.snapshot_generation,
            changes=self.changes,
        )


def decide(
    observation: Observation,
    state: FleetState,
    observation_history: ObservationHistory,
    history: RunHistory | None = None,
) -> Decision:
    """Decide from what is seen now; `state` is the last decision's, `sightings` what was seen before, `history` what
    was learned of run times."""
    observation_history = observation_history.after(observation)
    recorded, back = state, recovered(observation, state)
    breakers = _breakers(observation, recorded, observation_history)
    state = recorded.with_recovered(back).model_copy(update={"breakers": breakers})
    supply = supply_of(observation, state, observation_history.registrations.latency)
    asked = ceilings(observation, state)
    failover = _plan(observation, state, supply, observation_history, history or RunHistory())
    planned = with_warm_pool(failover.packed.plan, observation, state, supply) if failover else None
    observation_history = with_idleness(observation_history, observation, state, supply, planned)
    scale_down = plan_scale_down(observation, state, observation_history, supply, planned)
    if failover:
        scale_down = scale_down.with_withdrawn(failover.withdrawn)
    extras = failover.packed.extras if failover else {}
    leaving = {action.node for action in scale_down.actions if not isinstance(action, Undrain)}
    opened = [SetExtra(node=name, extra=extra) for name, extra in sorted(extras.items()) if name not in leaving]
    # Of two requests about a node one is asked at a time, and that to undrain comes again until it is seen done.
    scale_down = scale_down.putting_off({each.node for each in opened}, state.undrains)
    targets = _targets(observation, state, supply, planned, scale_down)
    changes = changes_of(recorded, targets, planned, scale_down, back, failover.reasons if failover else {})
    requests = {
        "drains": dict(scale_down.drains),
        "undrains": dict(scale_down.undrains),
        "moves": dict(scale_down.moves),
        "bookings": failover.packed.bookings if failover else state.bookings,
    }
    observation_history = replace(observation_history, lost=observation_history.lost.intersection(scale_down.undrains))
    if changes:
        after = FleetState(
            generation=state.generation + 1,
            fence=state.fence,
            snapshot_generation=observation.snapshot.generation,
            decided_at=observation.now,
            targets=targets,
            ceilings={target.shape: max(target.replicas, asked[target.shape]) for target in targets},
            boot_p99_seconds=observation_history.registrations.latency.p99_seconds(),
            breakers=breakers,
            keep_seconds=dict(observation_history.idle_gaps.keep_alive.learned),
            **requests,
        )
    else:
        after = state.model_copy(update={**requests, "ceilings": dict(asked)})
    return Decision(after, changes, (*opened, *scale_down.actions), observation_history, planned)


def _breakers(
    observation: Observation, state: FleetState, observation_history: ObservationHistory
) -> tuple[Breaker, ...]:
    if not observation.whole:
        return state.breakers
    failing = failures(observation, observation_history.failing, observation_history.registrations, state.breakers)
    shapes = [shape.name for shape in observation.binding.catalogue.shapes]
    return breakers_after(state.breakers, failing, started(observation, state.breakers), shapes, observation.now)


def _plan(
    observation: Observation,
    state: FleetState,
    supply: Supply,
    observation_history: ObservationHistory,
    history: RunHistory,
) -> Failover | None:
    """By the policy that the binding names; None when the queue or the nodes could not be read."""
    binding, snapshot = observation.binding, observation.snapshot
    if snapshot.pending is None or snapshot.running is None or snapshot.nodes is None:
        return None
    demands: list[Demand] = []
    if binding.state == "active":
        demands = startable(snapshot.pending, binding.partition, observation.now, new_workers(binding.catalogue))

    def planner(asked: Sequence[Demand], there: Supply, catalogue: Catalogue, left: QuotaHeadroom) -> Placement:
        if binding.policy.name == "family":
            any_family = bool(state.breakers)
            policy = FamilyPolicy(binding.catalogue)
            fitted = first_fit(asked, there, policy, catalogue, left, any_family=any_family)
            gpu_shapes = GpuShapes(binding.catalogue)
            extras = opened(snapshot, gpu_nodes(observation, gpu_shapes)) | gpu_extras(observation, gpu_shapes)
            return Placement(fitted.plan, (), extras)
        return packing_plan(
            asked,
            there,
            observation,
            state.bookings,
            catalogue,
            left,
            observation_history.registrations.latency,
            history,
        )

    return plan_around(observation, state, demands, supply, quota_headroom(observation, state, supply), planner)


def _targets(
    observation: Observation, state: FleetState, supply: Supply, planned: Plan | None, scale_down: ScaleDown
) -> tuple[ShapeTarget, ...]:
    shapes = [target.shape for target in state.targets]
    shapes += sorted((supply.standing.keys() | (planned.new if planned else {}).keys()) - set(shapes))
    targets: list[ShapeTarget] = []
    for shape in shapes:
        before = state.target(shape) or ShapeTarget(shape=shape, worker=supply.specs[shape], replicas=0)
        chosen, unregistered = (
            {name for name in names if supply.workers[name].shape == shape}
            for names in (scale_down.removable, scale_down.unregistered)
        )
        replicas = before.replicas
        if planned is not None:
            new = planned.new.get(shape, 0)
            expected = supply.standing[shape] - len(chosen | unregistered) + planned.ordered.get(shape, 0) + new
            if observation.edge.listed(observation.now):
                replicas = expected
            elif new:
                replicas = max(replicas, expected)
        targets.append(
            ShapeTarget(
                shape=shape,
                worker=supply.specs[shape],
                replicas=replicas,
                victims=tuple(sorted((set(before.victims) - scale_down.forgotten) | chosen)),
                unregistered=tuple(sorted((set(before.unregistered) - scale_down.forgotten) | unregistered)),
            )
        )
    return tuple(targets)
