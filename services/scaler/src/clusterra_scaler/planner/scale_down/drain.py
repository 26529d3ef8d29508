"""Scaling down in two phases, and the records of workers that are gone. A state machine without a clock of its own.

    in use -- idle long enough, not needed --> Drain --accepted--> drained
    drained -- seen idle in a snapshot taken after that --> victim -- gone from the edge and from Slurm --> forgotten
    drained -- wanted again --> its record is dropped, then Undrain
    in use -- it makes room for a job that has waited, see `claims` --> Drain --accepted--> drained
    in use or idle -- its machine will be taken away --> Drain, and never wanted again -- it is gone --> Down
    unknown to Slurm for longer than its limit --> victim, see `ghosts`

A worker that Slurm has becomes a victim only by a snapshot that shows it drained for our reason, running nothing, and
named by no running job, and while no undrain of ours may still reach Slurm. Where a list could not be read, everything
stays as it is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.rpc.slurm import DeleteNode, Down, Drain, SetExtra, Undrain

from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.registration import OverdueWorker, overdue_workers
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, drained_by_us
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.scale_down.drain_budget import DrainBudget
from clusterra_scaler.planner.scale_down.idle_release import released

UNANSWERED_SECONDS = 60.0
"""How long an undrain that got no answer may still be on its way."""
NOTED_AGAIN_SECONDS = 15.0
"""An undrain that is asked for again and again is noted no more often."""

type Action = Drain | Undrain | Down | DeleteNode | SetExtra


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """What changes in scaling down, and what Slurm must be asked to do."""

    drains: Mapping[WorkerName, datetime]
    undrains: Mapping[WorkerName, datetime]
    victims: frozenset[WorkerName]
    """Workers that may be removed from now on, drained and idle."""
    overdue_workers: Mapping[WorkerName, OverdueWorker]
    """Workers that may be removed from now on although Slurm never had them."""
    forgotten: frozenset[WorkerName]
    """Victims that neither the edge nor Slurm has any more."""
    actions: tuple[Action, ...]
    moves: Mapping[WorkerName, datetime]
    """See FleetState."""

    def with_withdrawn(self, workers: Mapping[WorkerName, OverdueWorker]) -> Self:
        """With more workers that Slurm never had."""
        return replace(self, overdue_workers={**workers, **self.overdue_workers})

    def putting_off(self, nodes: Collection[WorkerName], recorded: Mapping[WorkerName, datetime]) -> Self:
        """Without new undrains of these nodes: one that is not asked for is not on its way, and delays no removal."""
        return replace(
            self,
            undrains={
                name: recorded.get(name, at) if name in nodes else at
                for name, at in self.undrains.items()
                if name not in nodes or name in recorded
            },
            actions=tuple(
                action for action in self.actions if not (isinstance(action, Undrain) and action.node in nodes)
            ),
        )

    @property
    def removable(self) -> frozenset[WorkerName]:
        """Workers that are named as victims now."""
        return self.victims | {name for name, ghost in self.overdue_workers.items() if ghost.serves}

    @property
    def unregistered(self) -> frozenset[WorkerName]:
        """Workers that may be removed from now on, as long as they do not serve."""
        return frozenset(self.overdue_workers) - self.removable


def plan_scale_down(
    observation: Observation,
    state: FleetState,
    observation_history: ObservationHistory,
    supply: Supply,
    plan: Plan | None,
) -> ScaleDown:
    """Take every worker one step further. Without a plan nobody knows what is needed: nothing is drained or removed."""
    drains = dict(state.drains)
    undrains = {name: at for name, at in state.undrains.items() if _seconds(at, observation) < UNANSWERED_SECONDS}
    actions: list[Action] = []
    victims: frozenset[WorkerName] = frozenset()
    moves = DrainBudget(state.moves, observation.binding.policy.moves_per_minute, observation.now)
    found: dict[WorkerName, OverdueWorker] = {}
    if plan is not None:
        drains = {name: at for name, at in drains.items() if name not in plan.undrain}
        actions += [Undrain(node=name) for name in sorted(plan.undrain)]
        if observation.whole:
            drains, victims, more = _step(observation, drains, undrains.keys(), supply, plan)
            actions += more
            for name in sorted(plan.clear.keys() & supply.nodes.keys() - drains.keys()):
                if not supply.nodes[name].draining and moves.begin(name):
                    actions.append(Drain(node=name, reason=f"makes room for job {plan.clear[name]}"))
            for name, idle_seconds in released(observation, state, observation_history, supply, plan, moves).items():
                actions.append(Drain(node=name, reason=f"idle for {idle_seconds:.0f} s"))
            found = {
                name: each
                for name, each in overdue_workers(observation, observation_history.registrations).items()
                if name in supply.workers
            }
        for name in plan.undrain:
            if name not in undrains or _seconds(undrains[name], observation) >= NOTED_AGAIN_SECONDS:
                undrains[name] = observation.now
    return ScaleDown(
        drains=drains,
        undrains=undrains,
        victims=victims,
        overdue_workers=found,
        forgotten=_forgotten(observation, state),
        actions=(
            *actions,
            *_gone(observation, state, observation_history, supply),
            *_records_to_delete(observation, state, observation_history, supply),
        ),
        moves=moves.record,
    )


def _step(
    observation: Observation,
    recorded: Mapping[WorkerName, datetime],
    undrains: Collection[WorkerName],
    supply: Supply,
    plan: Plan,
) -> tuple[dict[WorkerName, datetime], frozenset[WorkerName], list[Action]]:
    """What becomes of the drains that were begun."""
    drains: dict[WorkerName, datetime] = {}
    victims: set[WorkerName] = set()
    actions: list[Action] = []
    busy = busy_nodes(observation.snapshot)
    for name in sorted(supply.workers.keys() & supply.nodes.keys() - plan.undrain):
        node = supply.nodes[name]
        free = runs_nothing(node) and name not in busy
        accepted_at, leaves_by = recorded.get(name), supply.workers[name].leaves_by
        if node.draining and not drained_by_us(node):
            continue
        if accepted_at is None:
            if node.draining:
                actions.append(Drain(node=name, reason="not needed"))
            elif leaves_by is not None:
                # At once: a job that Slurm puts there now is lost with the machine.
                actions.append(Drain(node=name, reason=f"its machine is taken away by {leaves_by:%H:%M:%S} UTC"))
        elif observation.snapshot.taken_at <= accepted_at or (node.draining and not (free and name not in undrains)):
            drains[name] = accepted_at
        elif node.draining:
            victims.add(name)
    return drains, frozenset(victims), actions


def _seconds(since: datetime, observation: Observation) -> float:
    return (observation.now - since).total_seconds()


def _forgotten(observation: Observation, state: FleetState) -> frozenset[WorkerName]:
    if not observation.edge.listed(observation.now) or observation.snapshot.nodes is None:
        return frozenset()
    return state.victims - _there(observation) - {node.name for node in observation.snapshot.nodes}


def _gone(
    observation: Observation, state: FleetState, observation_history: ObservationHistory, supply: Supply
) -> list[Down]:
    """Nodes whose machine was taken away as announced: Slurm itself would miss them after SlurmdTimeout alone.

    Of others that an edge leaves out nobody knows whether they are gone, and a job may run on them.
    """
    if not observation.edge.listed(observation.now):
        return []
    gone = (observation_history.interrupted - _there(observation) - state.victims) & supply.nodes.keys()
    return [
        Down(node=name, reason="its machine is gone")
        for name in sorted(gone)
        if "DOWN" not in supply.nodes[name].states
    ]


def _records_to_delete(
    observation: Observation, state: FleetState, observation_history: ObservationHistory, supply: Supply
) -> list[DeleteNode]:
    """Slurm's records of victims that are gone, and of workers that have been gone for long."""
    if not observation.edge.listed(observation.now) or observation.snapshot.running is None:
        return []
    there = _there(observation)
    busy = busy_nodes(observation.snapshot)
    overdue_workers = {
        name
        for name, since in observation_history.absent.items()
        if name in supply.ours and _seconds(since, observation) >= observation.binding.policy.ghost_seconds
    }
    return [
        DeleteNode(node=name)
        for name in sorted((state.victims | overdue_workers) & supply.nodes.keys())
        if name not in there and name not in busy and runs_nothing(supply.nodes[name])
    ]


def _there(observation: Observation) -> frozenset[WorkerName]:
    """Workers the edge has, be they on their way out."""
    return frozenset(worker.name for worker in observation.edge.workers or () if worker.phase != "failed")
