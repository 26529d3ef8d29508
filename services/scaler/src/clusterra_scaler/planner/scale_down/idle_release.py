"""Which idle workers go now: those kept for long enough, down to the floor, and so many at once as may begin to."""

from collections import Counter
from collections.abc import Mapping

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.warm_pool import warm_pool_of
from clusterra_scaler.planner.scale_down.drain_budget import DrainBudget

RESERVED = "RESERVED"
"""Slurm's flag of a node whose reservation has begun: jobs that ask for that can run nowhere else, and until it is over
Slurm does not forget the node."""


def released(
    observation: Observation,
    state: FleetState,
    observation_history: ObservationHistory,
    supply: Supply,
    plan: Plan,
    moves: DrainBudget,
) -> Mapping[WorkerName, float]:
    """By worker, for how many seconds it has been idle; the longest idle first. They are counted as moves.

    Nodes that do not answer are no part of the floor, and may come back; those that do are ready for a job all the
    time.
    """
    in_use = {
        name: supply.nodes[name]
        for name in supply.workers.keys() & supply.nodes.keys() - plan.undrain
        if name not in state.drains and not supply.nodes[name].draining and supply.workers[name].leaves_by is None
    }
    spare = Counter(supply.workers[name].shape for name, node in in_use.items() if not node.gone)
    spare.subtract(warm_pool_of(observation))
    busy = busy_nodes(observation.snapshot)
    idle: list[tuple[float, WorkerName]] = []
    for name, node in in_use.items():
        if (
            runs_nothing(node)
            and RESERVED not in node.states
            and name not in busy
            and name not in plan.needed
            and name not in plan.clear
        ):
            idle_seconds, patience_seconds = _patience(node, observation_history, observation)
            if idle_seconds >= patience_seconds:
                idle.append((-idle_seconds, name))
    going: dict[WorkerName, float] = {}
    for less_idle_seconds, name in sorted(idle):
        shape, answers = supply.workers[name].shape, not in_use[name].gone
        if (spare[shape] > 0 or not answers) and moves.begin(name):
            spare[shape] -= answers
            going[name] = -less_idle_seconds
    return going


def _patience(
    node: NodeState, observation_history: ObservationHistory, observation: Observation
) -> tuple[float, float]:
    """For how many seconds a node has been idle, and for how many it is kept."""
    policy = observation.binding.policy
    idle_seconds = (observation.now - observation_history.idle_since(node, observation.now)).total_seconds()
    if node.gone:
        return idle_seconds, policy.ghost_seconds
    if policy.name == "family":
        return idle_seconds, policy.idle_seconds
    worker = observation_history.idle_gaps.idle[node.name]
    return observation.now.timestamp() - worker.since, min(worker.keep_seconds, policy.idle_seconds)
