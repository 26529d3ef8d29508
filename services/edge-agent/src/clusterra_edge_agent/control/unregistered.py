"""Unregistered workers, which should be Slurm nodes by now: removed like victims, but only while slurmd does not serve.

A worker whose slurmd does not serve has not registered, so it runs no job. The scaler cannot drain such a worker, nor
check it at the moment of its removal. So the agent checks before it begins, and again right before the removal.
"""

from collections.abc import Sequence

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.scale import DesiredState, ShapeTarget


def add_unregistered_victims(desired: DesiredState, workers: Sequence[Worker]) -> DesiredState:
    """Adds the unregistered workers whose slurmd does not serve to the victims. The other unregistered workers stay.

    In the result, `unregistered` names the victims that may be removed only while their slurmd does not serve.
    """
    if not any(target.unregistered for target in desired.targets or ()):
        return desired
    booting = {worker.name for worker in workers if worker.phase == "booting"}
    targets = tuple(_with_more_victims(target, booting) for target in desired.targets or ())
    return desired.model_copy(update={"targets": targets})


def _with_more_victims(target: ShapeTarget, booting: set[str]) -> ShapeTarget:
    removable = tuple(name for name in target.unregistered if name in booting)
    return target.model_copy(update={"victims": (*target.victims, *removable), "unregistered": removable})
