"""`job.pending`: the whole queue of a cluster as the proxy saw it. A full state, never a difference."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire


class PendingJobs(Wire):
    """Pending jobs that ask for exactly the same: listed once, with their ids."""

    job_ids: tuple[JobId, ...]
    """Slurm's job ids; a pending array is one id, whatever its number of tasks."""
    count: Annotated[int, Field(ge=1)]
    """How many could run side by side: an array counts min(tasks, its throttle)."""
    cpus: Annotated[int, Field(ge=1)]
    """CPUs of one job or array task, over all its nodes."""
    nodes: Annotated[int, Field(ge=1)] = 1
    memory_per_node_mib: Annotated[int, Field(ge=0)] | None = None
    memory_per_cpu_mib: Annotated[int, Field(ge=0)] | None = None
    features: str = ""
    """Slurm's constraint expression."""
    gres: str = ""
    exclusive: bool = False
    partition: str
    uid: int
    reason: str
    """Slurm's own word for why it waits, such as `Resources` or `Dependency`."""
    held: bool = False
    """Priority 0: Slurm will not consider it."""
    time_limit_seconds: float | None = None
    first_submitted_at: Moment


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


class NodeState(Wire):
    """A Slurm node record."""

    name: str
    states: tuple[str, ...]
    """Slurm's base state and flags in upper case, such as `("IDLE", "DRAIN")`."""
    cpus: int
    cpus_allocated: int
    memory_mib: int
    memory_allocated_mib: int
    features: tuple[str, ...] = ()
    reason: str = ""
    idle_since: Moment | None = None
    """Since when it has run nothing; None while it runs something or where Slurm does not tell."""
    registered_at: Moment | None = None

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

    schema_name: ClassVar[str] = "job.pending.v1"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every snapshot of a cluster, over restarts too (milliseconds of the epoch)."""
    taken_at: Moment
    """When the oldest of the reads began that these lists come from: nothing in them is older."""
    pending: tuple[PendingJobs, ...] | None
    running: tuple[RunningJob, ...] | None
    nodes: tuple[NodeState, ...] | None
