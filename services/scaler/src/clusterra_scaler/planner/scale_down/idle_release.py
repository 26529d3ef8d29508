"""Selects the idle workers to release now: past their keep-alive time, above the warm pool, within the drain budget."""

from collections import Counter
from collections.abc import Collection, Mapping

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.observation import runs_nothing
from clusterra_scaler.planner.observed.registration import OverdueWorker
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.policies import policy_of
from clusterra_scaler.planner.placement.warm_pool import warm_pool_of
from clusterra_scaler.planner.scale_down.drain_budget import DrainBudget

RESERVED = "RESERVED"
"""Slurm's flag of a node whose reservation has begun. Jobs of that reservation can run nowhere else, and Slurm keeps
the node's record until the reservation ends."""


def idle_workers_to_drain(context: DecisionContext, plan: Plan, budget: DrainBudget) -> Mapping[WorkerName, float]:
    """The workers to drain and for how many seconds each has been idle, the longest idle first.

    Their drains are charged to the budget. Nodes that do not answer do not count for the warm pool and may come back;
    the nodes of the warm pool can take a job at any time.
    """
    supply = context.supply
    in_use = {
        name: supply.nodes[name]
        for name in supply.workers.keys() & supply.nodes.keys() - plan.undrain
        if name not in context.state.drains
        and not supply.nodes[name].draining
        and supply.workers[name].leaves_by is None
    }
    spare = Counter(supply.workers[name].shape for name, node in in_use.items() if not node.not_responding)
    spare.subtract(warm_pool_of(context.observation.binding))
    idle: list[tuple[float, WorkerName]] = []
    for name, node in in_use.items():
        if (
            runs_nothing(node)
            and RESERVED not in node.states
            and name not in context.busy
            and name not in plan.needed
            and name not in plan.drain_for
        ):
            idle_seconds, keep_seconds = _keep_alive(node, context)
            if idle_seconds >= keep_seconds:
                idle.append((-idle_seconds, name))
    drained: dict[WorkerName, float] = {}
    for negative_idle_seconds, name in sorted(idle):
        shape, answers = supply.workers[name].shape, not in_use[name].not_responding
        if (spare[shape] > 0 or not answers) and budget.spend(name):
            spare[shape] -= answers
            drained[name] = -negative_idle_seconds
    return drained


def unregistered_to_release(
    context: DecisionContext, plan: Plan, drained: Collection[WorkerName], budget: DrainBudget
) -> dict[WorkerName, OverdueWorker]:
    """The workers that nothing wants and that have not registered: past their keep-alive time, above the warm pool.

    The edge removes them only while their slurmd does not serve. `drained`: the workers whose drain begins now.
    """
    supply, nodes, idle = context.supply, context.supply.nodes, context.history.idle_gaps.idle
    staying = [
        name
        for name, worker in supply.workers.items()
        if name not in drained
        and name not in context.state.drains
        and worker.leaves_by is None
        and not (name in nodes and (nodes[name].draining or nodes[name].not_responding))
    ]
    spare = Counter(supply.workers[name].shape for name in staying)
    spare.subtract(warm_pool_of(context.observation.binding))
    policy, moment = policy_of(context.observation.binding), context.observation.snapshot.taken_at.timestamp()
    released: dict[WorkerName, OverdueWorker] = {}
    for name in sorted(name for name in staying if name in idle and name not in nodes and name not in plan.needed):
        worker, unwanted_seconds = supply.workers[name], moment - idle[name].since
        kept = policy.keep_unregistered(name, context)
        if worker.phase == "booting" and kept is not None and unwanted_seconds >= kept and spare[worker.shape] > 0:
            if not budget.spend(name):
                break
            spare[worker.shape] -= 1
            reason = f"has not registered, and nothing has wanted it for {unwanted_seconds:.0f} s"
            released[name] = OverdueWorker(serves=False, reason=reason)
    return released


def _keep_alive(node: NodeState, context: DecisionContext) -> tuple[float, float]:
    """For how many seconds a node has been idle, and after how many it is drained."""
    observation = context.observation
    if node.not_responding:
        idle_seconds = (observation.now - context.history.idle_since(node, observation.now)).total_seconds()
        return idle_seconds, observation.binding.policy.ghost_seconds
    return policy_of(observation.binding).keep_alive(node, context)
