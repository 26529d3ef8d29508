"""What Slurm and the edge report of a cluster, and whether the reports are complete and fresh."""

from dataclasses import dataclass, replace
from datetime import datetime

from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Applied, Heartbeat, Stuck, Worker
from clusterra_contracts.queue import NodeState, QueueSnapshot
from clusterra_contracts.registry import ClusterBinding

EDGE_FRESH_SECONDS = 6 * HEARTBEAT_SECONDS
"""Maximum age of the edge's list of workers for it to count as the present one."""
SILENT_SECONDS = EDGE_FRESH_SECONDS
"""After so long without a newer heartbeat, one with a lower generation counts: its sender's clock was set back. Longer
than any heartbeat is under way: each route gives up after 15 s."""

_BUSY = (("ALLOCATED",), ("MIXED",))
_UNSTEADY = frozenset({"DRAIN", "NOT_RESPONDING", "COMPLETING", "FAIL", "REBOOT_REQUESTED"})


@dataclass(frozen=True, slots=True)
class Edge:
    """The last report of the edge. Its list of workers may be stale."""

    workers: tuple[Worker, ...] | None = None
    """The last list that the edge could read; None before the first."""
    applied: Applied | None = None
    """The desired state that the edge had carried out when it read the list."""
    generation: int = 0
    listed_at: datetime | None = None
    """When the list arrived; None if a later heartbeat came without a list."""
    stuck: tuple[Stuck, ...] | None = None
    """Why some of these workers do not start; None if the edge cannot tell."""
    sees_machines: bool = False
    """Whether the edge can tell a worker whose machine is being launched from one that waits for a machine."""
    heard_at: datetime | None = None
    """When the last heartbeat that counted arrived, by the clock of this process."""

    def after(self, heartbeat: Heartbeat, at: datetime) -> "Edge":
        """Return the report after a heartbeat that arrived at this moment. An older one than the last is ignored.

        A generation is the sender's time, so an agent that starts again after its clock was set back sends lower ones.
        These count once nothing newer has arrived for `SILENT_SECONDS`.
        """
        if heartbeat.generation <= self.generation and not self._silent(at):
            return self
        if heartbeat.workers is None:
            return replace(self, generation=heartbeat.generation, listed_at=None, heard_at=at)
        return Edge(
            heartbeat.workers,
            heartbeat.applied,
            heartbeat.generation,
            listed_at=at,
            stuck=heartbeat.stuck,
            sees_machines=heartbeat.node_claims is not None,
            heard_at=at,
        )

    def is_news_after(self, before: "Edge", at: datetime) -> bool:
        """Whether this report says at this moment what the one before did not say, or what was too old there."""
        same_age = replace(before, generation=self.generation, listed_at=self.listed_at, heard_at=self.heard_at)
        return self != same_age or self.is_fresh(at) != before.is_fresh(at)

    def _silent(self, at: datetime) -> bool:
        if self.heard_at is None:
            return False
        # Our own clock may have been set back too.
        return not 0 <= (at - self.heard_at).total_seconds() < SILENT_SECONDS

    def is_fresh(self, now: datetime) -> bool:
        """Whether the list of workers is fresh. Nothing may be removed because of a stale list."""
        return self.listed_at is not None and (now - self.listed_at).total_seconds() < EDGE_FRESH_SECONDS


@dataclass(frozen=True, slots=True)
class Observation:
    """All reports of a cluster at the moment of a decision."""

    binding: ClusterBinding
    snapshot: QueueSnapshot
    edge: Edge
    now: datetime
    snapshot_age_seconds: float | None = None
    """How old the snapshot is, see `SnapshotAge`; None: as old as `taken_at` says."""

    @property
    def snapshot_is_stale(self) -> bool:
        """Whether the snapshot is too old to decide anything: what it shows may have changed since."""
        age_seconds = self.snapshot_age_seconds
        if age_seconds is None:
            age_seconds = (self.now - self.snapshot.taken_at).total_seconds()
        return age_seconds > self.snapshot.valid_seconds

    @property
    def complete(self) -> bool:
        """Whether every list could be read and the edge's is fresh. Workers are drained or removed only then."""
        snapshot = self.snapshot
        return None not in (snapshot.pending, snapshot.running, snapshot.nodes) and self.edge.is_fresh(self.now)


def same_queue(one: QueueSnapshot, other: QueueSnapshot) -> bool:
    """Whether two snapshots tell the same, apart from when."""
    return _content(one) == _content(other)


def _content(snapshot: QueueSnapshot) -> tuple[object, ...]:
    unreadable = (snapshot.unreadable_jobs, snapshot.unreadable_nodes)
    return snapshot.pending, snapshot.running, snapshot.nodes, unreadable


def busy_nodes(snapshot: QueueSnapshot) -> frozenset[str]:
    """The nodes of all running jobs; empty if the running jobs are unknown."""
    return frozenset(name for job in snapshot.running or () for name in job.nodes)


def runs_nothing(node: NodeState) -> bool:
    """Whether Slurm runs nothing on the node. A node that is down counts once Slurm has taken its jobs from it."""
    return node.idle or (
        "DOWN" in node.states
        and node.cpus_allocated == 0
        and node.memory_allocated_mib == 0
        and "COMPLETING" not in node.states
    )


def only_busy(snapshot: QueueSnapshot, edge: Edge) -> bool:
    """Whether nothing waits, every worker is a node that runs jobs, and every such node is one of these workers.

    The passing of time then changes nothing soon.
    """
    if snapshot.pending or not snapshot.running or not snapshot.nodes or edge.listed_at is None:
        return False
    names = {node.name for node in snapshot.nodes}
    return (
        all(node.states[:1] in _BUSY and not _UNSTEADY.intersection(node.states) for node in snapshot.nodes)
        and names == busy_nodes(snapshot)
        and names == {worker.name for worker in edge.workers or () if worker.phase == "running"}
        and len(names) == len(edge.workers or ())
        and all(worker.leaves_by is None for worker in edge.workers or ())
    )
