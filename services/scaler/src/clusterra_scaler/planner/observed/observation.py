"""What others have told of a cluster, and how far it can be believed."""

from dataclasses import dataclass, replace
from datetime import datetime

from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Applied, Heartbeat, Stuck, Worker
from clusterra_contracts.queue import NodeState, QueueSnapshot
from clusterra_contracts.registry import ClusterBinding

BELIEVED_SECONDS = 6 * HEARTBEAT_SECONDS
"""An edge that has been silent for longer may have other workers by now."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What the edge has told: its last list of workers, and whether that can be taken for the present."""

    workers: tuple[Worker, ...] | None = None
    """The last list that could be read; None before the first."""
    applied: Applied | None = None
    """Which desired state had been carried out when it was made."""
    generation: int = 0
    listed_at: datetime | None = None
    """When the list was heard; None once a heartbeat came without one."""
    stuck: tuple[Stuck, ...] | None = None
    """Why some of these workers do not start; None where the edge cannot tell."""
    sees_machines: bool = False
    """Whether it can tell a worker whose machine is on its way from one that waits for a machine."""

    def hears(self, heartbeat: Heartbeat, at: datetime) -> "Edge":
        """After a heartbeat; an older one than the last changes nothing."""
        if heartbeat.generation <= self.generation:
            return self
        if heartbeat.workers is None:
            return replace(self, generation=heartbeat.generation, listed_at=None)
        return Edge(
            heartbeat.workers,
            heartbeat.applied,
            heartbeat.generation,
            listed_at=at,
            stuck=heartbeat.stuck,
            sees_machines=heartbeat.node_claims is not None,
        )

    def listed(self, now: datetime) -> bool:
        """Whether the list is of the present: only then may something be removed because of it."""
        return self.listed_at is not None and (now - self.listed_at).total_seconds() < BELIEVED_SECONDS


@dataclass(frozen=True, slots=True)
class Observation:
    """What others have told, at the moment of a decision."""

    binding: ClusterBinding
    snapshot: QueueSnapshot
    edge: Edge
    now: datetime

    @property
    def whole(self) -> bool:
        """Whether every list could be read, so that something may be drained or removed."""
        snapshot = self.snapshot
        return None not in (snapshot.pending, snapshot.running, snapshot.nodes) and self.edge.listed(self.now)


def busy_nodes(snapshot: QueueSnapshot) -> frozenset[str]:
    """Those that a running job names; none when the running jobs are not known."""
    return frozenset(name for job in snapshot.running or () for name in job.nodes)


def runs_nothing(node: NodeState) -> bool:
    """Whether Slurm has nothing on the node. A node that is down runs nothing once its jobs were taken from it."""
    return node.idle or (
        "DOWN" in node.states
        and node.cpus_allocated == 0
        and node.memory_allocated_mib == 0
        and "COMPLETING" not in node.states
    )
