"""Computes the actions that lead from the present workers to the desired ones. Pure.

- Only named victims are removed, and only from the shape that names them.
- A shape that is not listed is left unchanged. `targets=None` is no opinion.
- A worker that is terminating or has ended is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec


@dataclass(frozen=True, slots=True)
class Start:
    """Start `count` more workers of a shape."""

    shape: ShapeName
    spec: WorkerSpec
    count: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove this worker: it is drained and idle, or has never registered."""

    name: WorkerName
    unregistered: bool = False
    """Whether to remove it only while its slurmd does not serve."""


type Action = Start | Remove


def reconcile(desired: DesiredState, workers: Sequence[Worker]) -> tuple[Action, ...]:
    """Returns the actions that lead from `workers` to `desired`. Starts come first, because jobs wait for them."""
    starts: list[Action] = []
    removals: list[Action] = []
    for target in {target.shape: target for target in desired.targets or ()}.values():
        present = [
            worker.name for worker in workers if worker.shape == target.shape and worker.phase in ("booting", "running")
        ]
        victims = [name for name in present if name in target.victims]
        missing = target.replicas - (len(present) - len(victims))
        if missing > 0:
            starts.append(Start(target.shape, target.worker, missing))
        removals.extend(Remove(name, unregistered=name in target.unregistered) for name in victims)
    return (*starts, *removals)
