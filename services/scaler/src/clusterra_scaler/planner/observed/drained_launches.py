"""Counts the workers of each shape in a row that Slurm drained as they registered, such as for `Low RealMemory`.

Such a worker is removed soon (see `slurm_drains`), and its replacement may be drained just so. A worker that has once
registered well is none of them: what it lacks since then has failed later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from clusterra_contracts.identity import ShapeName, WorkerName

from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.slurm_drains import drained_at_registration

MAX_REMEMBERED = 20
"""Maximum number of workers that are remembered of each shape. Two make a failure."""


@dataclass(frozen=True, slots=True)
class DrainedLaunches:
    """The workers that Slurm drained as they registered, of each shape since the last one that registered well.

    A takeover loses them, so that a failure needs as many again.
    """

    in_a_row: Mapping[ShapeName, Mapping[WorkerName, datetime]] = field(default_factory=dict)
    """When each of these workers was started."""
    reasons: Mapping[ShapeName, str] = field(default_factory=dict)
    """Slurm's reason for the last drain of each shape."""
    sound: frozenset[WorkerName] = frozenset()
    """Active workers that have registered well."""

    def after(self, observation: Observation) -> "DrainedLaunches":
        """Add a complete observation; repeating one changes nothing."""
        nodes = {node.name: node for node in observation.snapshot.nodes or () if not node.not_responding}
        active = [worker for worker in observation.edge.workers or () if worker.phase in ("booting", "running")]
        registered = [(worker, nodes[worker.name]) for worker in active if worker.name in nodes]
        sound = {worker.name for worker, node in registered if not drained_at_registration(node)}
        sound |= self.sound & {worker.name for worker in active}
        in_a_row = {shape: dict(started) for shape, started in self.in_a_row.items()}
        reasons = dict(self.reasons)
        for worker, node in registered:
            if worker.name not in sound:
                in_a_row.setdefault(worker.shape, {})[worker.name] = worker.started_at
                reasons[worker.shape] = node.reason
        for worker, _ in registered:
            if worker.name in sound and worker.shape in in_a_row:
                later = in_a_row[worker.shape].items()
                in_a_row[worker.shape] = {name: at for name, at in later if at > worker.started_at}
        kept = {shape: dict(list(started.items())[-MAX_REMEMBERED:]) for shape, started in in_a_row.items() if started}
        return DrainedLaunches(kept, {shape: reasons[shape] for shape in kept}, frozenset(sound))
