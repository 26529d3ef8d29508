"""Which victims of a desired state may be removed now, by what is known of their pods. Pure."""

from collections.abc import Mapping
from datetime import datetime

from clusterra_contracts.identity import WorkerName
from clusterra_contracts.scale import ShapeTarget

from clusterra_edge_agent.kubernetes.client.resources import Pod


def without_reused_names(target: ShapeTarget, pods: Mapping[WorkerName, Pod], decided_at: datetime) -> ShapeTarget:
    """The target without victims whose name now belongs to a pod that was created after the decision."""
    valid = (name for name in target.victims if name not in pods or pods[name].created_at <= decided_at)
    return target.model_copy(update={"victims": tuple(valid)})


def removable(target: ShapeTarget, pods: Mapping[WorkerName, Pod]) -> set[WorkerName]:
    """The victims without those in use, and without unregistered ones whose slurmd serves by now."""
    serving = {name for name in target.unregistered if name in pods and pods[name].ready}
    return set(target.victims) - serving - in_use(target, pods)


def in_use(target: ShapeTarget, pods: Mapping[WorkerName, Pod]) -> set[WorkerName]:
    """The victims that Slurm shows not drained, or busy, where the pods' controller tells."""
    return {name for name in target.victims if name in pods and pods[name].active and pods[name].in_use}
