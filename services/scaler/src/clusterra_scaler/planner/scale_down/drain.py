"""Two-phase scale-down, and the removal of node records whose workers are gone. A state machine without a clock.

    in use -- idle past its keep-alive time, not needed --> Drain --accepted--> drained
    drained -- idle in a snapshot taken after that --> victim -- gone from the edge and from Slurm --> forgotten
    drained -- needed again --> its record is dropped, then Undrain
    victim -- not drained or busy in Slurm, and still at the edge --> in use, see `taken_back`
    in use -- drained for a head-job reservation, see `head_reservation` --> Drain --accepted--> drained
    in use or idle -- its machine will be interrupted --> Drain, never needed again -- it is gone --> Down
    in use, of a cluster that is being deleted --> Drain, never needed again
    drained by Slurm itself, see `slurm_drains` -- runs nothing --> victim
    unregistered for longer than its limit --> victim, see `registration`
    unregistered and not needed, past its keep-alive time --> named as unregistered, see `idle_release`

A worker that Slurm knows becomes a victim only by a snapshot that shows it drained for our reason or by Slurm itself,
running nothing and named by no running job, and only while no undrain of ours may still reach Slurm. While a list
cannot be read, nothing changes. The drains of operators are left alone.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Down, Drain, SetExtra, Undrain

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.observation import Observation, runs_nothing
from clusterra_scaler.planner.observed.registration import OverdueWorker, overdue_workers
from clusterra_scaler.planner.observed.slurm_drains import drained_by_slurm
from clusterra_scaler.planner.observed.supply import drained_by_us
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.scale_down.drain_budget import DrainBudget
from clusterra_scaler.planner.scale_down.idle_release import idle_workers_to_drain, unregistered_to_release

UNANSWERED_SECONDS = 60.0
"""How long an undrain without an answer may still reach Slurm."""
NOTED_AGAIN_SECONDS = 15.0
"""Minimum time between two records of the same repeated undrain."""

type Action = Drain | Undrain | Down | DeleteNode | SetExtra


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """The next states of workers on their way out, and the requests to Slurm."""

    drains: Mapping[WorkerName, datetime] = field(default_factory=dict)
    undrains: Mapping[WorkerName, datetime] = field(default_factory=dict)
    victims: frozenset[WorkerName] = frozenset()
    """Drained and idle workers that may be removed from now on."""
    drained_by_slurm: Mapping[WorkerName, str] = field(default_factory=dict)
    """The victims among them that Slurm drained by itself, and its reasons."""
    overdue_workers: Mapping[WorkerName, OverdueWorker] = field(default_factory=dict)
    """Workers that may be removed from now on although they never registered."""
    forgotten: frozenset[WorkerName] = frozenset()
    """Victims that are gone from the edge and from Slurm."""
    actions: tuple[Action, ...] = ()
    begun: Mapping[WorkerName, datetime] = field(default_factory=dict)
    """The drains charged to the drain budget, see `FleetState.moves`."""

    def with_withdrawn(self, workers: Mapping[WorkerName, OverdueWorker]) -> Self:
        """With more workers that never registered."""
        return replace(self, overdue_workers={**workers, **self.overdue_workers})

    def putting_off(self, nodes: Collection[WorkerName], recorded: Mapping[WorkerName, datetime]) -> Self:
        """Without new undrains of these nodes. An undrain that is not requested delays no removal."""
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
        """Workers to name as victims now."""
        return self.victims | {name for name, each in self.overdue_workers.items() if each.serves}

    @property
    def unregistered(self) -> frozenset[WorkerName]:
        """Workers that may be removed from now on, as long as their slurmd does not serve."""
        return frozenset(self.overdue_workers) - self.removable


def plan_scale_down(context: DecisionContext, plan: Plan | None) -> ScaleDown:
    """Takes every worker one step further. Without a plan nothing is drained or removed: the need is unknown."""
    observation, state, supply = context.observation, context.state, context.supply
    drains = dict(state.drains)
    undrains = {name: at for name, at in state.undrains.items() if _seconds(at, observation) < UNANSWERED_SECONDS}
    actions: list[Action] = []
    victims: frozenset[WorkerName] = frozenset()
    replaced: dict[WorkerName, str] = {}
    budget = DrainBudget(state.moves, observation.binding.policy.moves_per_minute, observation.now)
    overdue: dict[WorkerName, OverdueWorker] = {}
    if plan is not None:
        drains = {name: at for name, at in drains.items() if name not in plan.undrain}
        actions += [Undrain(node=name) for name in sorted(plan.undrain)]
        if observation.complete:
            drains, victims, more = _continued_drains(context, drains, undrains.keys(), plan)
            actions += [*more, *_new_drains(context, plan, drains.keys(), budget)]
            replaced = _replaced(context, undrains.keys(), budget)
            found = overdue_workers(observation, context.history.registrations)
            overdue = {name: each for name, each in found.items() if name in supply.workers}
            drained = {action.node for action in actions if isinstance(action, Drain)}
            overdue = unregistered_to_release(context, plan, drained | overdue.keys(), budget) | overdue
        for name in plan.undrain:
            if name not in undrains or _seconds(undrains[name], observation) >= NOTED_AGAIN_SECONDS:
                undrains[name] = observation.now
    return ScaleDown(
        drains=drains,
        undrains=undrains,
        victims=victims | replaced.keys(),
        drained_by_slurm=replaced,
        overdue_workers=overdue,
        forgotten=_forgotten(context),
        actions=(*actions, *_interrupted(context), *_records_to_delete(context)),
        begun=budget.record,
    )


def _continued_drains(
    context: DecisionContext, recorded: Mapping[WorkerName, datetime], undrains: Collection[WorkerName], plan: Plan
) -> tuple[dict[WorkerName, datetime], frozenset[WorkerName], list[Action]]:
    """The next step of every drain that has begun: accepted drains, victims, and drains to request again."""
    observation, supply = context.observation, context.supply
    drains: dict[WorkerName, datetime] = {}
    victims: set[WorkerName] = set()
    actions: list[Action] = []
    for name in sorted(supply.workers.keys() & supply.nodes.keys() - plan.undrain):
        node = supply.nodes[name]
        free = runs_nothing(node) and name not in context.busy
        accepted_at, leaves_by = recorded.get(name), supply.workers[name].leaves_by
        if node.draining and not drained_by_us(node):
            continue
        if accepted_at is None:
            if node.draining:
                actions.append(Drain(node=name, reason="not needed"))
            elif leaves_by is not None:
                # No delay: a job that Slurm starts there now is lost with the machine.
                actions.append(Drain(node=name, reason=f"its machine is taken away by {leaves_by:%H:%M:%S} UTC"))
        elif observation.snapshot.taken_at <= accepted_at or (node.draining and not (free and name not in undrains)):
            drains[name] = accepted_at
        elif node.draining:
            victims.add(name)
    return drains, frozenset(victims), actions


def _new_drains(
    context: DecisionContext, plan: Plan, drained: Collection[WorkerName], budget: DrainBudget
) -> Iterator[Action]:
    """Drains that begin now: for the head-job reservation first, then of idle workers.

    A cluster that is being deleted needs no worker any more. Slurm lets the jobs on a draining node go on to their end.
    """
    nodes = context.supply.nodes
    if context.observation.binding.deleting:
        for name in sorted(context.supply.workers.keys() & nodes.keys() - drained):
            if not nodes[name].draining and budget.spend(name):
                yield Drain(node=name, reason="its cluster is being deleted")
        return
    for name in sorted(plan.drain_for.keys() & nodes.keys() - drained):
        if not nodes[name].draining and budget.spend(name):
            yield Drain(node=name, reason=f"makes room for job {plan.drain_for[name]}")
    for name, idle_seconds in idle_workers_to_drain(context, plan, budget).items():
        yield Drain(node=name, reason=f"idle for {idle_seconds:.0f} s")


def _replaced(context: DecisionContext, undrains: Collection[WorkerName], budget: DrainBudget) -> dict[WorkerName, str]:
    """The workers that Slurm itself has drained and that run nothing any more, and why Slurm drained them.

    They are charged to the drain budget: what fails on one worker may fail on all.
    """
    nodes = context.supply.nodes
    return {
        name: nodes[name].reason
        for name in sorted(context.supply.workers.keys() & nodes.keys() - context.busy - set(undrains))
        if drained_by_slurm(nodes[name]) and runs_nothing(nodes[name]) and budget.spend(name)
    }


def _seconds(since: datetime, observation: Observation) -> float:
    return (observation.now - since).total_seconds()


def _forgotten(context: DecisionContext) -> frozenset[WorkerName]:
    observation = context.observation
    if not observation.edge.is_fresh(observation.now) or observation.snapshot.nodes is None:
        return frozenset()
    return context.state.victims - context.present - {node.name for node in observation.snapshot.nodes}


def _interrupted(context: DecisionContext) -> list[Down]:
    """Nodes whose machine was interrupted as announced: without us Slurm would notice only after SlurmdTimeout.

    Of other workers that an edge leaves out nobody knows whether they are gone, and a job may run on them.
    """
    observation, supply = context.observation, context.supply
    if not observation.edge.is_fresh(observation.now):
        return []
    gone = (context.history.interrupted - context.present - context.state.victims) & supply.nodes.keys()
    return [
        Down(node=name, reason="its machine is gone")
        for name in sorted(gone)
        if "DOWN" not in supply.nodes[name].states
    ]


def _records_to_delete(context: DecisionContext) -> list[DeleteNode]:
    """Slurm's records of victims that are gone, and orphaned records: their workers have been absent for long."""
    observation, supply = context.observation, context.supply
    if not observation.edge.is_fresh(observation.now) or observation.snapshot.running is None:
        return []
    orphaned = {
        name
        for name, since in context.history.absent.items()
        if name in supply.worker_nodes and _seconds(since, observation) >= observation.binding.policy.ghost_seconds
    }
    return [
        DeleteNode(node=name)
        for name in sorted((context.state.victims | orphaned) & supply.nodes.keys())
        if name not in context.present and name not in context.busy and runs_nothing(supply.nodes[name])
    ]
