"""Finds victims to take back: those that Slurm shows not drained, or busy, although they were drained and idle.

An operator may resume the node of a victim, and slurmctld may lose a drain when it restarts from an older state. Slurm
may then start a job there while the edge has not removed the worker yet. So the worker leaves the victims, and its
scale-down starts again with a drain.

The edge must still have the worker: one that is terminating cannot be kept, and is replaced like any other.
"""

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.observed.observation import Observation, busy_nodes
from clusterra_scaler.planner.observed.state import FleetState

_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})


def taken_back(observation: Observation, state: FleetState) -> frozenset[WorkerName]:
    """The victims that must not be removed any more, by what is known of Slurm and by a fresh list of the edge.

    This needs no complete observation: keeping a worker is the safe side, and the snapshot that named it was complete.
    """
    if observation.snapshot.nodes is None or not observation.edge.is_fresh(observation.now):
        return frozenset()
    named = {name for target in state.targets for name in target.victims}
    active = {worker.name for worker in observation.edge.workers or () if worker.phase in ("booting", "running")}
    busy = busy_nodes(observation.snapshot)
    return frozenset(
        node.name
        for node in observation.snapshot.nodes
        if node.name in named
        and node.name in active
        and (not node.draining or node.name in busy or _is_allocated(node))
    )


def still_unconfirmed(observation: Observation, state: FleetState) -> dict[WorkerName, int]:
    """The workers taken back before, by generation, of which the edge may not know yet that it keeps them.

    The edge knows once it has applied that generation. A worker that it had removed before is none of them.
    """
    edge = observation.edge
    if not state.taken_back or not edge.is_fresh(observation.now):
        return dict(state.taken_back)
    applied = edge.applied.generation if edge.applied is not None else 0
    active = {worker.name for worker in edge.workers or () if worker.phase in ("booting", "running")}
    return {name: since for name, since in state.taken_back.items() if name in active and since > applied}


def _is_allocated(node: NodeState) -> bool:
    return bool(node.cpus_allocated or node.memory_allocated_mib or _BUSY.intersection(node.states))
