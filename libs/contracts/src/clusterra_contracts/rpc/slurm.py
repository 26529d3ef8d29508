"""`slurm.<tenant>.<cluster>.<operation>`: what the proxy does on request, and what it answers.

Job descriptions use the field names of slurmrestd's newest `job_desc_msg`. Only the fields listed here exist:
what a caller may not set (user_id, group_id, comment, ...) is refused by name instead of being passed on.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from clusterra_contracts.identity import JobId, Moment, SlurmUser, Wire

Operation = Literal[
    "submit", "get", "list", "cancel", "nodes", "drain", "undrain", "down", "delete-node", "set-extra", "diag"
]

DRAIN_REASON_PREFIX = "clusterra:"
"""Only a drain whose reason starts so is ours to undo."""


def _plain_number(value: Any) -> Any:
    """Take Slurm's `{"set": true, "number": N}` as N, and its "not set" as None."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set", True) and not value.get("infinite", False) else None
    return value


Number = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_plain_number)]


class JobDescription(Wire):
    """A job to submit. Memory is in MiB, times are in the units slurmrestd documents (time_limit: minutes)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "job"
    environment: Annotated[tuple[str, ...], Field(min_length=1)]
    current_working_directory: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    wckey: str | None = None

    nodes: str | None = None
    """A string: `"2"` or `"2-4"`."""
    minimum_nodes: Number = None
    maximum_nodes: Number = None
    tasks: Number = None
    tasks_per_node: Number = None
    cpus_per_task: Number = None
    minimum_cpus: Number = None
    memory_per_node: Number = None
    memory_per_cpu: Number = None
    threads_per_core: Number = None
    temporary_disk_per_node: Number = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_socket: str | None = None
    tres_per_task: str | None = None
    licenses: str | None = None
    constraints: str | None = None
    required_nodes: tuple[str, ...] | None = None
    excluded_nodes: tuple[str, ...] | None = None
    shared: tuple[str, ...] | None = None
    """How it shares nodes: `["none"]` asks for whole nodes, `["oversubscribe"]`, `["user"]`."""

    time_limit: Number = None
    time_minimum: Number = None
    begin_time: Number = None
    deadline: Number = None
    array: str | None = None
    dependency: str | None = None
    hold: bool | None = None
    requeue: bool | None = None
    nice: int | None = None
    kill_on_node_fail: bool | None = None
    open_mode: tuple[str, ...] | None = None
    argv: tuple[str, ...] | None = None
    standard_input: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None


class Submit(Wire):
    """Submit a batch script as `user`. With a key, doing it again answers with the job of the first time."""

    schema_name: ClassVar[str] = "slurm.submit.v1"

    user: SlurmUser
    email: str = ""
    script: Annotated[str, Field(min_length=1)]
    job: JobDescription
    idempotency_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")] | None = None


class Submitted(Wire):
    """Slurm accepted the job."""

    schema_name: ClassVar[str] = "slurm.submitted.v1"

    job_id: JobId
    accepted_at: Moment
    repeated: bool = False
    """The job was there already, from an earlier try with the same key."""
    warnings: tuple[str, ...] = ()


class Viewer(Wire):
    """For whom jobs are read: a user sees his own, an admin those of the whole tenant."""

    user: SlurmUser
    admin: bool = False


class GetJob(Wire):
    """Read one job."""

    schema_name: ClassVar[str] = "slurm.get.v1"

    viewer: Viewer
    job_id: JobId


class Job(Wire):
    """A job as its owner sees it. States and reasons are Slurm's own words."""

    schema_name: ClassVar[str] = "slurm.job.v1"

    job_id: JobId
    name: str
    user: str
    uid: int
    state: str
    reason: str = ""
    partition: str
    nodes: tuple[str, ...] = ()
    node_count: int = 1
    cpus: int = 1
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    constraints: str = ""
    time_limit_seconds: float | None = None
    submitted_at: Moment
    started_at: Moment | None = None
    ended_at: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    array_tasks: str = ""
    """For a pending array: the tasks that have not started, in Slurm's spelling."""
    standard_output: str = ""
    standard_error: str = ""


class ListJobs(Wire):
    """Read jobs, newest submit first. Filters that are None do not filter."""

    schema_name: ClassVar[str] = "slurm.list.v1"

    viewer: Viewer
    user: str | None = None
    states: tuple[str, ...] | None = None
    name: str | None = None
    submitted_after: Moment | None = None
    submitted_before: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None


class JobPage(Wire):
    """One page of jobs; `total` counts all that match; `cursor` reads on, None at the end."""

    schema_name: ClassVar[str] = "slurm.jobs.v1"

    jobs: tuple[Job, ...]
    total: int
    cursor: str | None = None


class Cancel(Wire):
    """Cancel a job (or one array task, or a whole array) as `user`."""

    schema_name: ClassVar[str] = "slurm.cancel.v1"

    viewer: Viewer
    job_id: JobId


class ListNodes(Wire):
    """Read the cluster's nodes."""

    schema_name: ClassVar[str] = "slurm.nodes.v1"


class Node(Wire):
    """A node as people see it."""

    name: str
    states: tuple[str, ...]
    cpus: int
    cpus_allocated: int
    memory_mib: int
    features: tuple[str, ...] = ()
    reason: str = ""


class NodePage(Wire):
    """All nodes."""

    schema_name: ClassVar[str] = "slurm.node-list.v1"

    nodes: tuple[Node, ...]


class Drain(Wire):
    """Let a node finish its work and take no new; the proxy puts `DRAIN_REASON_PREFIX` before the reason."""

    schema_name: ClassVar[str] = "slurm.drain.v1"

    node: str
    reason: str


class Drained(Wire):
    """Slurm accepted the drain: only a snapshot taken after this moment can show the node idle for good."""

    schema_name: ClassVar[str] = "slurm.drained.v1"

    accepted_at: Moment


class Undrain(Wire):
    """Give a node back to work. Refused (`conflict`) when the drain is not ours."""

    schema_name: ClassVar[str] = "slurm.undrain.v1"

    node: str


class Down(Wire):
    """Take a node for gone: its jobs are queued again. The proxy puts `DRAIN_REASON_PREFIX` before the reason."""

    schema_name: ClassVar[str] = "slurm.down.v1"

    node: str
    reason: str


class DeleteNode(Wire):
    """Forget a dynamic node's record. Refused (`conflict`) while Slurm says it runs something."""

    schema_name: ClassVar[str] = "slurm.delete-node.v1"

    node: str


class SetExtra(Wire):
    """Set what the `extra` of jobs is held against on a node."""

    schema_name: ClassVar[str] = "slurm.set-extra.v1"

    node: str
    extra: Annotated[str, Field(max_length=65536)]


class Diagnose(Wire):
    """Ask how the cluster's Slurm is."""

    schema_name: ClassVar[str] = "slurm.diag.v1"


class Diagnosis(Wire):
    """What the proxy knows of the cluster's Slurm."""

    schema_name: ClassVar[str] = "slurm.diagnosis.v1"

    reachable: bool
    api_version: str = ""
    slurm_version: str = ""
    jobs: int = 0
    last_listed_at: Moment | None = None
