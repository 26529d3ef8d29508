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
from clusterra_scaler.planner.observed.observation import Seen
from clusterra_scaler.planner.observed.observation_history import Sightings
from clusterra_scaler.planner.observed.registration import taken_back
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, supply_of
from clusterra_scaler.planner.placement.failover import Failover, plan_around
from clusterra_scaler.planner.placement.family_policy import FamilyPolicy, new_workers
from clusterra_scaler.planner.placement.first_fit import first_fit
from clusterra_scaler.planner.placement.gpu_node_extra import gpu_extras, gpu_nodes
from clusterra_scaler.planner.placement.node_extra import opened
from clusterra_scaler.planner.placement.packing_policy import PackingPlan, packing_plan
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.quota import Allowance, allowance_of, ceilings
from clusterra_scaler.planner.placement.warm_pool import with_floor
from clusterra_scaler.planner.requests.demand import Demand, startable
from clusterra_scaler.planner.requests.gpu_shapes import GpuShapes
from clusterra_scaler.planner.scale_down.drain import Action, Retirement, retire
from clusterra_scaler.planner.scale_down.idle_tracking import with_idleness


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, why it differs, and what Slurm must be asked once it is recorded."""

    state: FleetState
    changes: tuple[ShapeChange, ...]
    """Empty when nothing new is desired; then the generation is the old one."""
    actions: tuple[Action, ...]
    sightings: Sightings
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


def decide(seen: Seen, state: FleetState, sightings: Sightings, history: RunHistory | None = None) -> Decision:
    """Decide from what is seen now; `state` is the last decision's, `sightings` what was seen before, `history` what
    was learned of run times."""
    sightings = sightings.after(seen)
    recorded, back = state, taken_back(seen, state)
    breakers = _breakers(seen, recorded, sightings)
    state = recorded.with_taken_back(back).model_copy(update={"breakers": breakers})
    supply = supply_of(seen, state, sightings.looks.boots)
    asked = ceilings(seen, state)
    failover = _plan(seen, state, supply, sightings, history or RunHistory())
    planned = with_floor(failover.packed.plan, seen, state, supply) if failover else None
    sightings = with_idleness(sightings, seen, state, supply, planned)
    retirement = retire(seen, state, sightings, supply, planned)
    if failover:
        retirement = retirement.with_given_back(failover.given_back)
    extras = failover.packed.extras if failover else {}
    leaving = {action.node for action in retirement.actions if not isinstance(action, Undrain)}
    opened = [SetExtra(node=name, extra=extra) for name, extra in sorted(extras.items()) if name not in leaving]
    # Of two requests about a node one is asked at a time, and that to undrain comes again until it is seen done.
    retirement = retirement.putting_off({each.node for each in opened}, state.undrains)
    targets = _targets(seen, state, supply, planned, retirement)
    changes = changes_of(recorded, targets, planned, retirement, back, failover.reasons if failover else {})
    requests = {
        "drains": dict(retirement.drains),
        "undrains": dict(retirement.undrains),
        "moves": dict(retirement.moves),
        "bookings": failover.packed.bookings if failover else state.bookings,
    }
    sightings = replace(sightings, lost=sightings.lost.intersection(retirement.undrains))
    if changes:
        after = FleetState(
            generation=state.generation + 1,
            fence=state.fence,
            snapshot_generation=seen.snapshot.generation,
            decided_at=seen.now,
            targets=targets,
            ceilings={target.shape: max(target.replicas, asked[target.shape]) for target in targets},
            boot_p99_seconds=sightings.looks.boots.p99_seconds(),
            breakers=breakers,
            keep_seconds=dict(sightings.reuse.keeping.learned),
            **requests,
        )
    else:
        after = state.model_copy(update={**requests, "ceilings": dict(asked)})
    return Decision(after, changes, (*opened, *retirement.actions), sightings, planned)


def _breakers(seen: Seen, state: FleetState, sightings: Sightings) -> tuple[Breaker, ...]:
    if not seen.whole:
        return state.breakers
    failing = failures(seen, sightings.failing, sightings.looks, state.breakers)
    shapes = [shape.name for shape in seen.binding.catalogue.shapes]
    return breakers_after(state.breakers, failing, started(seen, state.breakers), shapes, seen.now)


def _plan(seen: Seen, state: FleetState, supply: Supply, sightings: Sightings, history: RunHistory) -> Failover | None:
    """By the policy that the binding names; None when the queue or the nodes could not be read."""
    binding, snapshot = seen.binding, seen.snapshot
    if snapshot.pending is None or snapshot.running is None or snapshot.nodes is None:
        return None
    demands: list[Demand] = []
    if binding.state == "active":
        demands = startable(snapshot.pending, binding.partition, seen.now, new_workers(binding.catalogue))

    def planner(asked: Sequence[Demand], there: Supply, catalogue: Catalogue, left: Allowance) -> PackingPlan:
        if binding.policy.name == "family":
            any_family = bool(state.breakers)
            policy = FamilyPolicy(binding.catalogue)
            fitted = first_fit(asked, there, policy, catalogue, left, any_family=any_family)
            gpu_shapes = GpuShapes(binding.catalogue)
            extras = opened(snapshot, gpu_nodes(seen, gpu_shapes)) | gpu_extras(seen, gpu_shapes)
            return PackingPlan(fitted.plan, (), extras)
        return packing_plan(asked, there, seen, state.bookings, catalogue, left, sightings.looks.boots, history)

    return plan_around(seen, state, demands, supply, allowance_of(seen, state, supply), planner)


def _targets(
    seen: Seen, state: FleetState, supply: Supply, planned: Plan | None, retirement: Retirement
) -> tuple[ShapeTarget, ...]:
    shapes = [target.shape for target in state.targets]
    shapes += sorted((supply.standing.keys() | (planned.new if planned else {}).keys()) - set(shapes))
    targets: list[ShapeTarget] = []
    for shape in shapes:
        before = state.target(shape) or ShapeTarget(shape=shape, worker=supply.specs[shape], replicas=0)
        chosen, unregistered = (
            {name for name in names if supply.workers[name].shape == shape}
            for names in (retirement.removable, retirement.unregistered)
        )
        replicas = before.replicas
        if planned is not None:
            new = planned.new.get(shape, 0)
            expected = supply.standing[shape] - len(chosen | unregistered) + planned.ordered.get(shape, 0) + new
            if seen.edge.listed(seen.now):
                replicas = expected
            elif new:
                replicas = max(replicas, expected)
        targets.append(
            ShapeTarget(
                shape=shape,
                worker=supply.specs[shape],
                replicas=replicas,
                victims=tuple(sorted((set(before.victims) - retirement.forgotten) | chosen)),
                unregistered=tuple(sorted((set(before.unregistered) - retirement.forgotten) | unregistered)),
            )
        )
    return tuple(targets)
