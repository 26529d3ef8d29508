"""`job.pending`: the whole queue of a cluster as the proxy saw it. A full state, never a difference."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire


class PendingJobs(Wire):
    """Pending jobs that ask for exactly the same: listed once, with their ids."""

    job_ids: tuple[JobId, ...]
    """Slurm's job ids; a pending array is one id, whatever its number of tasks."""
    count: Annotated[int, Field(ge=0)]
    """How many could start side by side: an array counts min(tasks, what its throttle leaves), which may be none."""
    array_tasks: dict[JobId, tuple[tuple[int, int], ...]] = Field(default_factory=dict)
    """Of each array among them the tasks that have not started: the first and the last number of each row of them."""
    cpus: Annotated[int, Field(ge=1)]
    """CPUs of one job or array task, over all its nodes."""
    cpus_per_task: Annotated[int, Field(ge=1)] = 1
    """So many of them are on one node together."""
    cpus_per_node: Annotated[int, Field(ge=1)] = 1
    """The fewest on any of its nodes."""
    tasks: Annotated[int, Field(ge=1)] | None = None
    nodes: Annotated[int, Field(ge=1)] = 1
    """The fewest it can run on."""
    max_nodes: Annotated[int, Field(ge=1)] | None = None
    """None: Slurm sets no bound of its own."""
    memory_per_node_mib: Annotated[int, Field(ge=0)] | None = None
    """0: all the memory of each node."""
    memory_per_cpu_mib: Annotated[int, Field(ge=0)] | None = None
    memory_per_gpu_mib: Annotated[int, Field(ge=0)] | None = None
    features: str = ""
    """Slurm's constraint expression."""
    gres: str = ""
    """Generic resources as `<per>/<name>[:<type>]=<count>`, joined by commas; `<per>` is `node`, `task` or `job`."""
    exclusive: bool = False
    """Its nodes are its alone."""
    exclusive_user: bool = False
    """Its nodes are its user's alone."""
    required_nodes: tuple[str, ...] = ()
    """All of these must be among its nodes."""
    excluded_nodes: tuple[str, ...] = ()
    partition: str
    """One or several, with commas; any of them will do."""
    reservation: str = ""
    het_job_id: JobId | None = None
    """The first component of the heterogeneous job that it is a component of: they start together or not at all."""
    het_offset: Annotated[int, Field(ge=0)] = 0
    uid: int
    reason: str
    """Slurm's own word for why it waits, such as `Resources` or `Dependency`. It is old news for up to a second:
    Slurm looks at a new job's nodes first, and only then at its dependencies and begin time."""
    held: bool = False
    """Priority 0: Slurm will not consider it."""
    dependent: bool = False
    """It waits for other jobs."""
    begins_at: Moment | None = None
    """Not before this moment, where that is still to come."""
    time_limit_seconds: float | None = None
    first_submitted_at: Moment
    extra: str = ""
    """Slurm's expression over what the Extra of nodes holds."""


class RunningJob(Wire):
    """A job that holds nodes now."""

    job_id: JobId
    uid: int
    user: str
    nodes: tuple[str, ...]
    cpus: int
    started_at: Moment
    ends_by: Moment | None = None
    """Start plus time limit, where it has one."""
    memory_mib: int | None = None
    """What it has been given over all its nodes; None where Slurm does not tell."""
    gres: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By node, where it has been given any there: how many of which generic resources, by name as in NodeState."""
    extra: str = ""
    """As of a pending job."""


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
    """How many it has of each generic resource, by name and type: `{"gpu:h100": 8}`. After a restart slurmctld may tell
    no types until slurmd has registered again."""
    gres_allocated: dict[str, int] = Field(default_factory=dict)
    """How many of them jobs have been given."""
    features: tuple[str, ...] = ()
    reason: str = ""
    idle_since: Moment | None = None
    """Since when it has run nothing; None while it runs something or where Slurm does not tell."""
    registered_at: Moment | None = None
    extra: str = ""
    """What a job's `extra` is held against; by convention JSON."""

    @property
    def draining(self) -> bool:
        """Whether Slurm puts no new job on it."""
        return "DRAIN" in self.states

    @property
    def idle(self) -> bool:
        """Whether it runs nothing, and Slurm says so in every way it can."""
        return (
            "IDLE" in self.states
            and self.cpus_allocated == 0
            and self.memory_allocated_mib == 0
            and "COMPLETING" not in self.states
        )

    @property
    def gone(self) -> bool:
        """Whether its slurmd does not answer."""
        return bool({"DOWN", "NOT_RESPONDING", "UNKNOWN"} & set(self.states))


class QueueSnapshot(Wire):
    """One look at a cluster's queue. A list that could not be read is None ("no opinion"); empty is a fact."""

    schema_name: ClassVar[str] = "job.pending.v3"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every snapshot of a cluster, over restarts too (milliseconds of the epoch)."""
    taken_at: Moment
    """When the oldest of the reads began that these lists come from: nothing in them is older."""
    pending: tuple[PendingJobs, ...] | None
    """In the order of Slurm's priority, the first of each; of equal priority those submitted first."""
    running: tuple[RunningJob, ...] | None
    nodes: tuple[NodeState, ...] | None
