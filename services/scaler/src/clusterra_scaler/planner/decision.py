"""One decision: from everything that is known of a cluster to its next desired state and what Slurm is asked to do.

Pure, and level-triggered: the same inputs give the same state, and no new generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterra_contracts.events import ScaleFact, ShapeChange
from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.scale import ShapeTarget

from clusterra_scaler.planner.allowance import Allowance, allowance_of, ceilings
from clusterra_scaler.planner.demand import startable
from clusterra_scaler.planner.plan import Plan, plan
from clusterra_scaler.planner.retire import Action, Retirement, retire
from clusterra_scaler.planner.seen import Seen
from clusterra_scaler.planner.shapes import FamilyPolicy, Policy
from clusterra_scaler.planner.sightings import Sightings
from clusterra_scaler.planner.state import FleetState
from clusterra_scaler.planner.supply import Supply, supply_of

POLICIES: Mapping[str, Policy] = {"family": FamilyPolicy()}
"""By the name a cluster's binding gives."""

_SPELT_OUT = 5


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


def decide(seen: Seen, state: FleetState, sightings: Sightings) -> Decision:
    """Decide from what is seen now; `state` is the last decision's, `sightings` what was seen before."""
    sightings = sightings.after(seen)
    supply = supply_of(seen, state)
    asked = ceilings(seen, state)
    planned = _plan(seen, supply, allowance_of(seen, state, supply))
    retirement = retire(seen, state, sightings, supply, planned)
    targets = _targets(seen, state, supply, planned, retirement)
    changes = _changes(state, targets, planned, retirement)
    requests = {"drains": dict(retirement.drains), "undrains": dict(retirement.undrains)}
    sightings = replace(sightings, lost=sightings.lost & retirement.undrains.keys())
    if changes:
        after = FleetState(
            generation=state.generation + 1,
            fence=state.fence,
            snapshot_generation=seen.snapshot.generation,
            decided_at=seen.now,
            targets=targets,
            ceilings={target.shape: max(target.replicas, asked[target.shape]) for target in targets},
            **requests,
        )
    else:
        after = state.model_copy(update={**requests, "ceilings": dict(asked)})
    return Decision(after, changes, retirement.actions, sightings, planned)


def _plan(seen: Seen, supply: Supply, allowance: Allowance) -> Plan | None:
    binding, snapshot = seen.binding, seen.snapshot
    if snapshot.pending is None or snapshot.running is None or snapshot.nodes is None:
        return None
    demands = startable(snapshot.pending, binding.partition) if binding.state == "active" else []
    return plan(demands, supply, POLICIES[binding.policy.name], binding.catalogue, allowance)


def _targets(
    seen: Seen, state: FleetState, supply: Supply, planned: Plan | None, retirement: Retirement
) -> tuple[ShapeTarget, ...]:
    shapes = [target.shape for target in state.targets]
    shapes += sorted((supply.standing.keys() | (planned.new if planned else {}).keys()) - set(shapes))
    targets: list[ShapeTarget] = []
    for shape in shapes:
        before = state.target(shape) or ShapeTarget(shape=shape, worker=supply.specs[shape], replicas=0)
        chosen = {name for name in retirement.victims if supply.workers[name].shape == shape}
        replicas = before.replicas
        if planned is not None:
            new = planned.new.get(shape, 0)
            expected = supply.standing[shape] - len(chosen) + planned.ordered.get(shape, 0) + new
            if seen.edge.listed(seen.now):
                replicas = expected
            elif new:
                replicas = max(replicas, expected)
        victims = (set(before.victims) - retirement.forgotten) | chosen
        targets.append(
            ShapeTarget(shape=shape, worker=supply.specs[shape], replicas=replicas, victims=tuple(sorted(victims)))
        )
    return tuple(targets)


def _changes(
    state: FleetState, targets: tuple[ShapeTarget, ...], planned: Plan | None, retirement: Retirement
) -> tuple[ShapeChange, ...]:
    changes = []
    for target in targets:
        before = state.target(target.shape)
        if before == target:
            continue
        chosen = tuple(name for name in target.victims if name in retirement.victims)
        bought = planned.new.get(target.shape, 0) if planned else 0
        jobs = planned.jobs.get(target.shape, ()) if planned else ()
        replicas_before = before.replicas if before else 0
        gone = tuple(name for name in (before.victims if before else ()) if name in retirement.forgotten)
        changes.append(
            ShapeChange(
                shape=target.shape,
                replicas_before=replicas_before,
                replicas_after=target.replicas,
                victims=chosen,
                reason=_reason(bought, jobs, chosen, gone, target.replicas - replicas_before - bought + len(chosen)),
                job_ids=jobs,
            )
        )
    return tuple(changes)


def _reason(
    bought: int, jobs: Sequence[JobId], chosen: Sequence[WorkerName], gone: Sequence[WorkerName], unexplained: int
) -> str:
    """In words, all that led to a change of one shape."""
    parts = []
    if bought:
        parts.append(f"{bought} more for pending {'job' if len(jobs) == 1 else 'jobs'} {_names(jobs)}")
    if chosen:
        parts.append(f"{_names(chosen)} drained and idle")
    if unexplained < 0:
        parts.append(f"{-unexplained} ordered or lost and not needed any more")
    if unexplained > 0:
        parts.append(f"{unexplained} there that had not been counted")
    if gone:
        parts.append(f"{_names(gone)} gone")
    return "; ".join(parts) or "the catalogue describes it differently now"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SPELT_OUT])
    return shown if len(names) <= _SPELT_OUT else f"{shown} and {len(names) - _SPELT_OUT} others"
