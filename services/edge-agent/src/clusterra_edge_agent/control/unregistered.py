"""Workers that Slurm should have known long ago: they go as victims do, but only while their slurmd does not serve.

What does not serve has not registered, so no job runs on it. The scaler can neither drain it nor look at it at the
moment of its removal; here the look is the last thing before.
"""

from collections.abc import Sequence

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.scale import DesiredState, ShapeTarget


def with_unregistered(desired: DesiredState, workers: Sequence[Worker]) -> DesiredState:
    """What is desired at this moment: with those among the victims that do not serve; the others stand."""
    if not any(target.unregistered for target in desired.targets or ()):
        return desired
    booting = {worker.name for worker in workers if worker.phase == "booting"}
    targets = tuple(_with_unregistered(target, booting) for target in desired.targets or ())
    return desired.model_copy(update={"targets": targets})


def _with_unregistered(target: ShapeTarget, booting: set[str]) -> ShapeTarget:
    going = tuple(name for name in target.unregistered if name in booting)
    return target.model_copy(update={"victims": (*target.victims, *going), "unregistered": ()})
