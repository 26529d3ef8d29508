"""What the central side knows of a cluster when its agent's heartbeat arrives."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec

MAX_SNAPSHOT_AGE_SECONDS = 30.0
"""An older snapshot does not say which nodes run jobs now. One is published at least every 5 s."""

_FENCE_WEIGHT = 1024
"""Fences begin at the Unix time in microseconds (`clusterra_runtime.nats.lease`), so versions stay below 2**63 until
the year 2255."""


@dataclass(frozen=True, slots=True)
class CentralState:
    """The central side's knowledge of a cluster."""

    desired: DesiredState | None
    """The last desired state; None when there is none."""
    snapshot: QueueSnapshot | None
    """The last snapshot of the queue; None when it could not be read."""
    specs: Mapping[ShapeName, WorkerSpec]
    """The shapes of the catalogue."""
    now: datetime

    @property
    def desired_version(self) -> int:
        """The version of the desired state; 0 when there is none."""
        return 0 if self.desired is None else version_of(self.desired)

    @property
    def busy(self) -> frozenset[str] | None:
        """Slurm's names of the nodes that run jobs; None when they are not known."""
        if self.snapshot is None or self.snapshot.running is None:
            return None
        if (self.now - self.snapshot.taken_at).total_seconds() > MAX_SNAPSHOT_AGE_SECONDS:
            return None
        return frozenset(name for job in self.snapshot.running for name in job.nodes)


def version_of(desired: DesiredState) -> int:
    """The version of a desired state's commands, below 2**63.

    It rises with every state: generations continue over takeovers and fences never fall. The fence weighs more, so
    that the version also rises when a cluster's record is lost and its generations start again.
    """
    return _FENCE_WEIGHT * desired.fence + desired.generation


def host(node: str) -> str:
    """A node's name without its domain. Kubernetes' names have one, Slurm's do not."""
    return node.partition(".")[0]
