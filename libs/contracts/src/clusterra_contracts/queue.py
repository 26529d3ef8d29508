"""`job.pending`: the whole queue of a cluster as the proxy observed it. A full state, never a difference."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire


class PendingJobs(Wire):
    """Pending jobs with identical requests: one entry with all their ids."""

    job_ids: tuple[JobId, ...]
    """Slurm's job ids; a pending array has one id, whatever its number of tasks."""
    count: Annotated[int, Field(ge=0)]
    """How many jobs could start at the same time. An array counts min(tasks, remaining throttle), which may be 0."""
    array_tasks: dict[JobId, tuple[tuple[int, int], ...]] = Field(default_factory=dict)
    """The tasks of each array that have not started, as ranges: the first and the last number of each."""
    cpus: Annotated[int, Field(ge=1)]
    """CPUs of one job or array task, over all its nodes."""
    cpus_per_task: Annotated[int, Field(ge=1)] = 1
    """CPUs of one task, which must be on the same node."""
    cpus_per_node: Annotated[int, Field(ge=1)] = 1
    """The minimum number of CPUs on each of its nodes."""
    tasks: Annotated[int, Field(ge=1)] | None = None
    nodes: Annotated[int, Field(ge=1)] = 1
    """The minimum number of nodes."""
    max_nodes: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of nodes; None: Slurm sets no limit."""
    memory_per_node_mib: Annotated[int, Field(ge=0)] | None = None
    """0: the whole memory of each node."""
    memory_per_cpu_mib: Annotated[int, Field(ge=0)] | None = None
    memory_per_gpu_mib: Annotated[int, Field(ge=0)] | None = None
    features: str = ""
    """Slurm's constraint expression."""
    gres: str = ""
    """Generic resources as `<per>/<name>[:<type>]=<count>`, joined by commas; `<per>` is `node`, `task` or `job`."""
    exclusive: bool = False
    """The job shares its nodes with no other job."""
    exclusive_user: bool = False
    """The job shares its nodes only with jobs of the same user."""
    required_nodes: tuple[str, ...] = ()
    """Nodes that must all be part of its allocation."""
    excluded_nodes: tuple[str, ...] = ()
    partition: str
    """One partition, or several joined by commas; the job may run in any of them."""
    reservation: str = ""
    het_job_id: JobId | None = None
    """For a component of a heterogeneous job, the id of the first component. All components start together."""
    het_offset: Annotated[int, Field(ge=0)] = 0
    uid: int
    reason: str
    """Slurm's reason why the job waits, such as `Resources` or `Dependency`. It may be outdated by up to a second:
    Slurm evaluates the nodes of a new job first, and its dependencies and begin time afterwards."""
    held: bool = False
    """The priority is 0: Slurm does not consider the job."""
    dependent: bool = False
    """The job waits for other jobs."""
    begins_at: Moment | None = None
    """The requested begin time, if it is in the future."""
    time_limit_seconds: float | None = None
    first_submitted_at: Moment
    extra: str = ""
    """Slurm's expression that is evaluated against the Extra of nodes."""


class RunningJob(Wire):
    """A job that holds nodes now."""

    job_id: JobId
    uid: int
    user: str
    nodes: tuple[str, ...]
    cpus: int
    started_at: Moment
    ends_by: Moment | None = None
    """Start time plus time limit; None without a time limit."""
    memory_mib: int | None = None
    """The memory allocated over all its nodes; None where Slurm does not report it."""
    gres: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Allocated generic resources by node; the counts are by name, as in NodeState. Nodes without any are left out."""
    extra: str = ""
    """As for a pending job."""
    suspended: bool = False
    """Whether its processes are stopped. It keeps its nodes."""


class NodeState(Wire):
    """A Slurm node record."""

    name: str
    states: tuple[str, ...]
    """Slurm's base state and flags in upper case, such as `("IDLE", "DRAIN")`."""
    cpus: int
    cpus_allocated: int
    memory_mib: int
    memory_allocated_mib: int
    gres: dict[str, int] = Field(default_factory=dict)
    """The count of each generic resource, by name and type: `{"gpu:h100": 8}`. After a restart, slurmctld may omit the
    types until slurmd has registered again."""
    gres_allocated: dict[str, int] = Field(default_factory=dict)
    """The count of each generic resource that is allocated to jobs."""
    features: tuple[str, ...] = ()
    reason: str = ""
    idle_since: Moment | None = None
    """When the node became idle; None while it runs a job, or where Slurm does not report it."""
    registered_at: Moment | None = None
    extra: str = ""
    """The value that a job's `extra` expression is evaluated against; by convention JSON."""

    @property
    def draining(self) -> bool:
        """Whether Slurm starts no new job on the node."""
        return "DRAIN" in self.states

    @property
    def idle(self) -> bool:
        """Whether the node runs nothing, by its state, its flags and its allocations alike."""
        return (
            "IDLE" in self.states
            and self.cpus_allocated == 0
            and self.memory_allocated_mib == 0
            and "COMPLETING" not in self.states
        )

    @property
    def not_responding(self) -> bool:
        """Whether the node's slurmd does not respond."""
        return bool({"DOWN", "NOT_RESPONDING", "UNKNOWN"} & set(self.states))


class QueueCounts(Wire):
    """How many jobs and nodes each list of a snapshot has; None for a list that could not be read."""

    pending: Annotated[int, Field(ge=0)] | None = None
    """Each array counts as one job."""
    running: Annotated[int, Field(ge=0)] | None = None
    nodes: Annotated[int, Field(ge=0)] | None = None


class QueueSnapshot(Wire):
    """One observation of a cluster's queue.

    A list that could not be read is None ("no opinion"); an empty list means that there is nothing.

    A large snapshot is written so that its head can be read without its lists (`clusterra_contracts.bus.large_queue`).
    """

    schema_name: ClassVar[str] = "job.pending.v7"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every snapshot of a cluster, also over restarts (milliseconds of the epoch)."""
    taken_at: Moment
    """When the oldest read that these lists come from began: nothing in them is older."""
    published_at: Moment | None = None
    """When the snapshot was published, by the same clock as `taken_at`; None: by a release that does not tell."""
    valid_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """For how long after `taken_at` anything may be decided from it: until the next one is due, and a margin."""
    pending: tuple[PendingJobs, ...] | None
    """Ordered by Slurm's priority, at equal priority by submit time; the first job of a group gives its position."""
    running: tuple[RunningJob, ...] | None
    nodes: tuple[NodeState, ...] | None
    unreadable_jobs: Annotated[int, Field(ge=0)] = 0
    """Job records of Slurm that could not be read. They are in none of the lists."""
    unreadable_nodes: Annotated[int, Field(ge=0)] = 0
    """Node records of Slurm that could not be read. They are not in `nodes`."""
    counts: QueueCounts | None = None
    """Of a large snapshot: how many jobs and nodes its lists have."""
    traces: dict[JobId, str] = Field(default_factory=dict)
    """The `traceparent` of the submits of pending jobs, for links between traces; only a few, and only where traces
    are recorded."""

    @property
    def is_head(self) -> bool:
        """Whether this is the head of a large snapshot, whose lists were not read."""
        return self.counts is not None and self.pending is None and self.running is None and self.nodes is None

    @property
    def list_counts(self) -> QueueCounts:
        """How many jobs and nodes each list has, also of a snapshot of which only the head was read."""
        if self.counts is not None and self.is_head:
            return self.counts
        return QueueCounts(
            pending=None if self.pending is None else sum(len(group.job_ids) for group in self.pending),
            running=None if self.running is None else len(self.running),
            nodes=None if self.nodes is None else len(self.nodes),
        )
