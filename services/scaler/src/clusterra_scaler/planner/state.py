"""What the scaler knows of a cluster beside what others tell it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Applied, Heartbeat, Worker
from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.queue import NodeState, QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.scale import DesiredState, ShapeTarget
from pydantic import Field

BELIEVED_SECONDS = 6 * HEARTBEAT_SECONDS
"""An edge that has been silent for longer may have other workers by now."""

UNANSWERED_SECONDS = 60.0
"""How long an undrain that got no answer may still be on its way."""
NOTED_AGAIN_SECONDS = 15.0
"""An undrain that is asked for again and again is noted no more often."""


class FleetState(Wire):
    """A cluster's durable state: what was decided, and what scaling down has got to."""

    generation: int = 0
    """Counts the decisions; 0 before the first."""
    fence: int = 0
    """The lease of the replica that wrote it."""
    snapshot_generation: int = 0
    decided_at: Moment
    targets: tuple[ShapeTarget, ...] = ()
    """Every shape that was ever wanted: one that is not listed would be left alone by the edge."""
    ceilings: dict[ShapeName, int] = Field(default_factory=dict)
    """The most workers of a shape that any desired state asked for since the last one the edge acknowledged."""
    drains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Our drains that Slurm accepted, and when."""
    undrains: dict[WorkerName, Moment] = Field(default_factory=dict)
    """Undrains that may still reach Slurm, and when they were decided: asked for, and not answered for certain."""

    @classmethod
    def undecided(cls, at: datetime) -> "FleetState":
        """The state of a cluster that nothing was decided for."""
        return cls(decided_at=at)

    @property
    def requests(self) -> tuple[dict[WorkerName, Moment], dict[WorkerName, Moment]]:
        """What stands with Slurm. It must be in the record before Slurm is asked for more."""
        return (self.drains, self.undrains)

    def target(self, shape: ShapeName) -> ShapeTarget | None:
        """What was decided for a shape."""
        return next((target for target in self.targets if target.shape == shape), None)

    @property
    def victims(self) -> frozenset[WorkerName]:
        """All workers that may be removed, and may be gone already."""
        return frozenset(name for target in self.targets for name in target.victims)

    def taken_over(self, fence: int, at: datetime) -> "FleetState":
        """The same wishes as decided by the holder of a new lease, told to the edge as a state of its own."""
        return self.model_copy(update={"generation": self.generation + 1, "fence": fence, "decided_at": at})

    def drained(self, node: WorkerName, accepted_at: datetime) -> "FleetState":
        """With a drain that Slurm accepted."""
        return self.model_copy(update={"drains": {**self.drains, node: accepted_at}})

    def undrain_answered(self, node: WorkerName, sightings: "Sightings") -> "FleetState":
        """With an undrain that Slurm has carried out or refused. One that was lost earlier may still come."""
        if node in sightings.lost:
            return self
        return self.model_copy(update={"undrains": {name: at for name, at in self.undrains.items() if name != node}})

    def desired(self) -> DesiredState:
        """What the edge is told."""
        return DesiredState(
            generation=self.generation,
            fence=self.fence,
            snapshot_generation=self.snapshot_generation,
            decided_at=self.decided_at,
            targets=self.targets,
        )


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

    def hears(self, heartbeat: Heartbeat, at: datetime) -> "Edge":
        """After a heartbeat; an older one than the last changes nothing."""
        if heartbeat.generation <= self.generation:
            return self
        if heartbeat.workers is None:
            return replace(self, generation=heartbeat.generation, listed_at=None)
        return Edge(heartbeat.workers, heartbeat.applied, heartbeat.generation, at)

    def listed(self, now: datetime) -> bool:
        """Whether the list is of the present: only then may something be removed because of it."""
        return self.listed_at is not None and (now - self.listed_at).total_seconds() < BELIEVED_SECONDS


@dataclass(frozen=True, slots=True)
class Seen:
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


@dataclass(frozen=True, slots=True)
class Sightings:
    """Since when things have been so, where nobody else tells. Lost at a takeover, which only delays."""

    idle: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that run nothing, since the first snapshot that showed it."""
    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Slurm nodes whose worker the edge does not have, or has as ended."""
    lost: frozenset[str] = frozenset()
    """Nodes for which an undrain got no answer, so that a later one's answer does not settle it."""

    @classmethod
    def after_takeover(cls, state: FleetState) -> "Sightings":
        """Of somebody else's requests no answer will be heard."""
        return cls(lost=frozenset(state.undrains))

    def after(self, seen: Seen) -> "Sightings":
        """With what is seen now; a list that could not be read changes nothing."""
        nodes, running, edge = seen.snapshot.nodes, seen.snapshot.running, seen.edge
        idle, absent = self.idle, self.absent
        if nodes is not None and running is not None:
            busy = {name for job in running for name in job.nodes}
            idle = {
                node.name: self.idle.get(node.name, seen.snapshot.taken_at)
                for node in nodes
                if runs_nothing(node) and node.name not in busy
            }
        if nodes is not None and edge.listed(seen.now):
            there = {worker.name for worker in edge.workers or () if worker.phase != "failed"}
            absent = {node.name: self.absent.get(node.name, seen.now) for node in nodes if node.name not in there}
        return replace(self, idle=idle, absent=absent)

    def undrain_lost(self, node: str) -> "Sightings":
        """With an undrain that got no answer."""
        return replace(self, lost=self.lost | {node})


def runs_nothing(node: NodeState) -> bool:
    """Whether Slurm has nothing on the node. A node that is down runs nothing once its jobs were taken from it."""
    return node.idle or (
        "DOWN" in node.states
        and node.cpus_allocated == 0
        and node.memory_allocated_mib == 0
        and "COMPLETING" not in node.states
    )
