"""One decision: from everything that is known of a cluster to its next desired state and the requests to Slurm.

Nothing is decided from a stale snapshot: the state stays as it is, and Slurm is asked for nothing.

Pure and level-triggered: the same inputs give the same state, and then no new generation. Where the quota binds, or a
shape is probed, one or two more generations may follow from the same observation before the state is stable.

`STEPS` names what a decision does, in order. Each step reads the context and the results of the steps before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from clusterra_contracts.events import ScaleFact, ShapeChange
from clusterra_contracts.rpc.slurm_nodes import SetExtra, Undrain
from clusterra_contracts.scale import ShapeTarget

from clusterra_scaler.planner.changes import ChangeCauses, changes_of
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.context import DecisionContext, observe
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.observed.request_breakers import admitted_demands
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.failover import Failover, plan_around
from clusterra_scaler.planner.placement.node_bounds import LargestFleet, plannable
from clusterra_scaler.planner.placement.plan import Plan, Unmet
from clusterra_scaler.planner.placement.policies import policy_of
from clusterra_scaler.planner.placement.policy import PlacementRequest
from clusterra_scaler.planner.placement.warm_pool import with_warm_pool
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.scale_down.drain import Action, ScaleDown, plan_scale_down
from clusterra_scaler.planner.scale_down.idle_tracking import with_idle_tracking
from clusterra_scaler.planner.targets import targets_of


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, why it differs, and what Slurm must be asked once it is recorded."""

    state: FleetState
    changes: tuple[ShapeChange, ...]
    """Empty when nothing new is desired; then the generation is the old one."""
    actions: tuple[Action, ...]
    observation_history: ObservationHistory
    plan: Plan | None
    """None when the queue or the nodes could not be read, or were read too long ago."""
    headroom: QuotaHeadroom | None = None
    """What could be bought before this decision bought anything; None if nothing was decided."""

    @property
    def fact(self) -> ScaleFact:
        """The event of a change."""
        return ScaleFact(
            generation=self.state.generation,
            fence=self.state.fence,
            snapshot_generation=self.state.snapshot_generation,
            changes=self.changes,
        )


@dataclass(slots=True)
class _Working:
    """What the steps have found so far."""

    context: DecisionContext
    failover: Failover | None = None
    """None when the queue or the nodes could not be read."""
    plan: Plan | None = None
    scale_down: ScaleDown = field(default_factory=ScaleDown)
    extras: tuple[SetExtra, ...] = ()
    targets: tuple[ShapeTarget, ...] = ()
    changes: tuple[ShapeChange, ...] = ()


def decide(
    observation: Observation,
    state: FleetState,
    observation_history: ObservationHistory,
    run_history: RunHistory | None = None,
) -> Decision:
    """Decides from an observation; `state` and `observation_history` are those of the last decision."""
    if observation.snapshot_is_stale:
        return Decision(state, (), (), observation_history, None)
    working = _Working(observe(observation, state, observation_history, run_history or RunHistory()))
    for name, step in STEPS:
        try:
            step(working)
        except Exception as error:
            error.add_note(f"in the step of the decision: {name}")
            raise
    return _decision(working)


def _place_jobs(working: _Working) -> None:
    context = working.context
    observation, snapshot, binding = context.observation, context.observation.snapshot, context.observation.binding
    if snapshot.pending is None or snapshot.running is None or snapshot.nodes is None:
        return
    demands, held_back = _admitted(context)
    planned, unmet = plannable(demands, LargestFleet.of(observation))
    request = PlacementRequest(context, planned, context.supply, binding.catalogue, context.headroom)
    working.failover = plan_around(request, policy_of(binding)).with_unmet([*unmet, *held_back])


def _admitted(context: DecisionContext) -> tuple[list[Demand], list[Unmet]]:
    """The jobs to plan for, in their order, and those that are held back because Slurm does not start them."""
    planned: list[Demand] = []
    held_back: list[Unmet] = []
    for each in admitted_demands(context.demands, context.state.request_breakers):
        if each.breaker is None:
            planned.append(each.demand)
            continue
        if each.count:
            planned.append(replace(each.demand, count=each.count))
        reason = each.breaker.description(context.observation.now)
        held_back.append(Unmet(each.demand, each.demand.count - each.count, reason))
    return planned, held_back


def _fill_warm_pool(working: _Working) -> None:
    if working.failover is not None:
        working.plan = with_warm_pool(working.failover.placement.plan, working.context)


def _track_idle_workers(working: _Working) -> None:
    working.context = with_idle_tracking(working.context, working.plan)


def _scale_down(working: _Working) -> None:
    working.scale_down = plan_scale_down(working.context, working.plan)
    if working.failover is not None:
        working.scale_down = working.scale_down.with_withdrawn(working.failover.withdrawn)


def _set_node_extra(working: _Working) -> None:
    extras = working.failover.placement.extras if working.failover is not None else {}
    leaving = {action.node for action in working.scale_down.actions if not isinstance(action, Undrain)}
    working.extras = tuple(
        SetExtra(node=name, extra=extra) for name, extra in sorted(extras.items()) if name not in leaving
    )
    # One request per node at a time. The undrain is requested again until it is observed.
    nodes = {each.node for each in working.extras}
    working.scale_down = working.scale_down.putting_off(nodes, working.context.state.undrains)


def _set_targets(working: _Working) -> None:
    working.targets = targets_of(working.context, working.plan, working.scale_down)


def _explain_changes(working: _Working) -> None:
    causes = ChangeCauses(
        working.plan,
        working.scale_down,
        working.context.recovered,
        working.context.taken_back,
        working.failover.reasons if working.failover is not None else {},
    )
    working.changes = changes_of(working.context.recorded, working.targets, causes)


STEPS: tuple[tuple[str, Callable[[_Working], None]], ...] = (
    ("place pending jobs", _place_jobs),
    ("fill the warm pool", _fill_warm_pool),
    # Before scale-down, which compares idle times with what was learned from idle gaps.
    ("track idle workers", _track_idle_workers),
    ("scale down in two phases", _scale_down),
    # After scale-down: nodes on their way out get no new Extra.
    ("set the Extra of nodes", _set_node_extra),
    ("set targets by shape", _set_targets),
    ("explain changes", _explain_changes),
)


def _decision(working: _Working) -> Decision:
    context, scale_down = working.context, working.scale_down
    observation, state, history = context.observation, context.state, context.history
    named = scale_down.victims | scale_down.overdue_workers.keys()
    pending = {
        "drains": dict(scale_down.drains),
        "undrains": dict(scale_down.undrains),
        "moves": dict(scale_down.begun),
        # A worker that is named again is gone by the edge's hand, as any victim.
        "taken_back": {name: since for name, since in state.taken_back.items() if name not in named},
        "bookings": working.failover.placement.bookings if working.failover is not None else state.bookings,
    }
    if working.changes:
        after = FleetState(
            generation=state.generation + 1,
            fence=state.fence,
            snapshot_generation=observation.snapshot.generation,
            decided_at=observation.now,
            targets=working.targets,
            ceilings={target.shape: max(target.replicas, context.ceilings[target.shape]) for target in working.targets},
            boot_p99_seconds=history.registrations.latency.p99_seconds(),
            breakers=state.breakers,
            request_breakers=state.request_breakers,
            keep_seconds=dict(history.idle_gaps.keep_alive.learned),
            **pending,
        )
    else:
        after = state.model_copy(update={**pending, "ceilings": dict(context.ceilings)})
    history = replace(history, lost_undrains=history.lost_undrains.intersection(scale_down.undrains))
    actions = (*working.extras, *scale_down.actions)
    return Decision(after, working.changes, actions, history, working.plan, context.headroom)
