"""`job.part`: one part of a large queue snapshot. It counts only together with all others of its generation."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire
from clusterra_contracts.queue import MAX_PARTS, NodeState, PendingJobs
from clusterra_contracts.queue_parts.columns import Names, Times


class PendingChunk(Wire):
    """Some of a group of pending jobs with identical requests."""

    shared: PendingJobs
    """The group without its ids and tasks."""
    continued: bool = False
    """Whether it is the same group as the chunk before."""
    job_ids: Names = ()
    array_tasks: dict[JobId, tuple[tuple[int, int], ...]] = Field(default_factory=dict)
    """As in PendingJobs. An array's ranges may be spread over several chunks."""


class RunningChunk(Wire):
    """Running jobs of one user with equal allocations. Each column has one value a job."""

    uid: int
    user: str
    cpus: int
    memory_mib: int | None = None
    limit_microseconds: int | None = None
    """The time limit; None without one."""
    gres: dict[str, int] = Field(default_factory=dict)
    """The allocated generic resources on each of a job's nodes."""
    gres_by_node: dict[str, dict[str, int]] = Field(default_factory=dict)
    """The same by node, of a single job that has different ones on its nodes."""
    extra: str = ""
    job_ids: Names
    started_at: Times
    node_count: Annotated[int, Field(ge=0)] = 1
    """The number of nodes of each job."""
    nodes: Names
    """`node_count` nodes of the first job, then of the next one."""


class NodeChunk(Wire):
    """Nodes with equal records. Each column has one value a node."""

    shared: NodeState
    """The record without its name and times."""
    names: Names
    idle_since: Times | None = None
    """None: Slurm reports it for none of them."""
    registered_at: Times | None = None
    """None: Slurm reports it for none of them."""


class QueuePart(Wire):
    """One part of a snapshot. The snapshot's own message follows when all parts are stored."""

    schema_name: ClassVar[str] = "job.part.v1"

    generation: Annotated[int, Field(ge=1)]
    """That of the snapshot."""
    taken_at: Moment
    """That of the snapshot."""
    number: Annotated[int, Field(ge=0, lt=MAX_PARTS)]
    pending: tuple[PendingChunk, ...] = ()
    """In the order of the snapshot."""
    running: tuple[RunningChunk, ...] = ()
    nodes: tuple[NodeChunk, ...] = ()
