"""`slurm.<tenant>.<cluster>.<operation>`: the requests that the proxy serves, and their results.

Job descriptions use the field names of slurmrestd's newest `job_desc_msg`. Only the fields listed here exist. Fields
that a caller must not set (user_id, group_id, comment, ...) are rejected by name, not passed on.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, model_validator

from clusterra_contracts.identity import TEMPLATE_ID_PATTERN, JobId, Moment, SlurmUser, Wire
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.job_fields import NO_BOOLEAN, FurtherFields, Number
from clusterra_contracts.rpc.job_search import MAX_SEARCH

Operation = Literal[
    "submit",
    "prepare",
    "get",
    "list",
    "count",
    "cancel",
    "change",
    "nodes",
    "drain",
    "undrain",
    "down",
    "delete-node",
    "set-extra",
    "diag",
    "get-watched",
    "list-watched",
    "count-watched",
    "find-key",
    "rest",
    "rest-watched",
    "block-submits",
    "steps",
    "script",
]
"""Every replica of the proxy shares in an operation's requests, but only the one that watches the cluster answers
`get-watched`, `list-watched`, `count-watched`, `find-key` and `rest-watched`."""


class JobDescription(Wire):
    """A job to submit. Memory is in MiB; times are in the units that slurmrestd documents (time_limit: minutes)."""

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
    """A number or a range: `"2"` or `"2-4"`."""
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
    """How the job shares nodes: `["none"]` for whole nodes, `["oversubscribe"]` or `["user"]`."""

    time_limit: Number = None
    time_minimum: Number = None
    begin_time: Number = None
    deadline: Number = None
    array: str | None = None
    dependency: str | None = None
    hold: StrictBool | None = None
    requeue: StrictBool | None = None
    nice: Annotated[int | None, NO_BOOLEAN] = None
    kill_on_node_fail: StrictBool | None = None
    open_mode: tuple[str, ...] | None = None
    argv: tuple[str, ...] | None = None
    standard_input: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None


MAX_COMPONENTS = 16
"""The most components of a heterogeneous job. Slurm itself takes 128."""


class Component(Wire):
    """A further component of a heterogeneous job: what it asks for besides the first. All start together."""

    job: JobDescription
    further: FurtherFields = FurtherFields()


Components = Annotated[tuple[Component, ...], Field(max_length=MAX_COMPONENTS - 1)]
"""The components of a heterogeneous job after the first, in order; empty for any other job."""


class Claim(Wire):
    """The gateway's claim of an idempotency key, as the proxy has to respect it.

    The gateway claims a key by one conditional write, so at most one attempt at a time may submit its job. Moments are
    by the gateway's clock.
    """

    claimed_at: Moment
    """When the key was claimed first: its job is not older."""
    sent_at: Moment
    """When this request was sent."""
    first: bool = False
    """Whether nobody tried before, so that there can be no job yet. Otherwise the proxy looks for it first."""
    begin_by: Moment | None = None
    """The last moment at which the proxy may begin to submit; None: it may only look for the job."""


class Submit(Wire):
    """Submit a batch script as `user`. With an idempotency key, a repetition returns the job of the first request.

    An error says in `effect` whether there may be a job. A look (a claim without `begin_by`) that finds no job yet is
    answered `not_found`.
    """

    schema_name: ClassVar[str] = "slurm.submit.v5"

    user: SlurmUser
    email: str = ""
    script: Annotated[str, Field(min_length=1)]
    job: JobDescription
    idempotency_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")] | None = None
    claim: Claim | None = None
    """Together with `idempotency_key`; gateways of earlier releases send none."""
    kill_on_invalid_dependency: bool = False
    """Whether Slurm cancels the job when what it depends on has failed. It stands here and not in `job`, because the
    proxy of the release before ignores it here."""
    further: FurtherFields = FurtherFields()
    components: Components = ()
    template: Annotated[str, Field(pattern=rf"^({TEMPLATE_ID_PATTERN})?$")] = ""
    """The template that the job is made from; empty for none. A proxy of the release before ignores it."""


class Submitted(Wire):
    """Slurm accepted the job."""

    schema_name: ClassVar[str] = "slurm.submitted.v1"

    job_id: JobId
    """Of a heterogeneous job, that of its first component."""
    accepted_at: Moment
    repeated: bool = False
    """Whether the job already existed, from an earlier request with the same key."""
    warnings: tuple[str, ...] = ()


class FindKey(Wire):
    """Look for the job of a user's idempotency key among all jobs of slurmctld, as it has them after this request."""

    schema_name: ClassVar[str] = "slurm.find-key.v2"

    user: SlurmUser
    idempotency_key: str
    claimed_at: Moment
    """That of the claim."""


class FoundKey(Wire):
    """The job of a key, if slurmctld has one."""

    schema_name: ClassVar[str] = "slurm.found-key.v1"

    job: Submitted | None


class Viewer(Wire):
    """The person for whom jobs are read or changed.

    Everybody sees and changes their own jobs, and an admin those of all people. With `sees_all`, which the cluster's
    visibility decides, a person sees the jobs of all people. Only a uid proves whose a job is.
    """

    user: SlurmUser
    admin: bool = False
    sees_all: bool = False
    identified: bool = True
    """Whether the user's uid is one of this cluster. Without it they own no job there, and only an admin may look."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if not (self.identified or self.admin):
            raise ValueError("a viewer without a uid on the cluster must be an admin")
        return self

    @property
    def only_uid(self) -> int | None:
        """The only uid whose jobs the person sees; None: they see everybody's."""
        return None if self.admin or self.sees_all else self.user.uid

    def sees(self, uid: int | None) -> bool:
        """Whether the person sees this uid's jobs, and what tells of them; None for an unknown uid."""
        return self.only_uid in (None, uid)

    def changes(self, uid: int | None) -> bool:
        """Whether the person may change this uid's jobs."""
        return self.admin or self.owns(uid)

    def owns(self, uid: int | None) -> bool:
        """Whether this uid's jobs are the person's own."""
        return self.identified and uid == self.user.uid


class GetJob(Wire):
    """Read one job."""

    schema_name: ClassVar[str] = "slurm.get.v3"

    viewer: Viewer
    job_id: JobId


class Job(Wire):
    """A job as its owner sees it. States and reasons are Slurm's."""

    schema_name: ClassVar[str] = "slurm.job.v7"

    job_id: JobId
    name: str
    user: str
    uid: int
    state: str
    reason: str = ""
    partition: str
    account: str = ""
    qos: str = ""
    nodes: tuple[str, ...] = ()
    node_count: int = 1
    cpus: int = 1
    tasks: Annotated[int, Field(ge=1)] = 1
    cpus_per_task: Annotated[int, Field(ge=1)] = 1
    cpus_per_node: Annotated[int, Field(ge=1)] = 1
    """The fewest CPUs that each of its nodes must have for it."""
    min_nodes: Annotated[int, Field(ge=1)] | None = None
    """The fewest nodes that it asks for. `node_count` of a job that waits is only Slurm's guess."""
    max_nodes: Annotated[int, Field(ge=1)] | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_per_gpu_mib: int | None = None
    """Where it is set, `memory_per_node_mib` is no request of the job."""
    all_memory: bool = False
    """Whether it asks for all memory of its nodes."""
    exclusive: bool = False
    """Whether it shares its nodes with no other job."""
    constraints: str = ""
    gres: str = ""
    """The generic resources that it asks for, as `<per>/<name>[:<type>]=<count>`, joined by commas."""
    time_limit_seconds: float | None = None
    submitted_at: Moment
    started_at: Moment | None = None
    ended_at: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    restarts: int = 0
    """How often Slurm has requeued it: `Restarts` of scontrol."""
    array_tasks: str = ""
    """For a pending array, the tasks that have not started, in Slurm's format."""
    unstarted_tasks: str = ""
    """For an array that has ended, the tasks that never started, in Slurm's format."""
    standard_output: str = ""
    standard_error: str = ""
    peak_memory_mib: int | None = None
    """The most memory that one task had, as far as Slurm measured it. Only in the answer for one job that has ended."""
    cpu_efficiency: float | None = None
    """The part of its CPUs' time that the job used, where `peak_memory_mib` is known: 1.0 is all of it."""
    cancelled_by: str | None = None
    """Who cancelled it. Only in the answer for one job that has ended; None where Slurm does not know a person."""
    het_job_id: JobId | None = None
    """For a component of a heterogeneous job, the id of the first component."""
    het_offset: Annotated[int, Field(ge=0)] = 0
    """The place of a component in its heterogeneous job; 0 is the first."""
    het_components: tuple[JobId, ...] = ()
    """The ids of all components, in order. Of a job that slurmctld has forgotten, only in the answer for the first."""
    template: str = ""
    """The template that it was made from, as its comment says, which a user of sbatch may write; empty for none."""

    @property
    def request(self) -> PendingJobs:
        """What the job asks for, as a queue snapshot shows it, without the nodes that it names."""
        per_node = None if self.memory_per_gpu_mib is not None else self.memory_per_node_mib
        asked_nodes = self.node_count if self.min_nodes is None else self.min_nodes
        return PendingJobs(
            job_ids=(self.job_id.partition("_")[0],),
            count=1,
            cpus=max(self.cpus, 1),
            cpus_per_task=self.cpus_per_task,
            cpus_per_node=self.cpus_per_node,
            tasks=self.tasks,
            nodes=max(self.node_count if self.started_at else asked_nodes, 1),
            max_nodes=self.max_nodes,
            memory_per_node_mib=0 if self.all_memory else per_node,
            memory_per_cpu_mib=self.memory_per_cpu_mib,
            memory_per_gpu_mib=self.memory_per_gpu_mib,
            features=self.constraints,
            gres=self.gres,
            exclusive=self.exclusive,
            partition=self.partition,
            uid=self.uid,
            reason=self.reason,
            first_submitted_at=self.submitted_at,
            time_limit_seconds=self.time_limit_seconds,
        )


class ListJobs(Wire):
    """Read jobs in an order. A filter of None matches all."""

    schema_name: ClassVar[str] = "slurm.list.v5"

    viewer: Viewer
    user: str | None = None
    states: tuple[str, ...] | None = None
    name: str | None = None
    submitted_after: Moment | None = None
    submitted_before: Moment | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    sort: str = "-submitted"
    """A field of `requests/job_order.py` of the proxy, with `-` before it for a descending order."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None
    search: Annotated[str, Field(min_length=1, max_length=MAX_SEARCH)] | None = None
    """What `job_search.is_found` looks for. A proxy of the release before ignores it."""


class ListWatched(Wire):
    """Read jobs at the replica of the proxy that watches the cluster."""

    schema_name: ClassVar[str] = "slurm.list-watched.v5"

    request: ListJobs
    fresh: bool = False
    """Whether to wait for an observation that began after this request, because the asking replica has just changed a
    job."""


class JobPage(Wire):
    """One page of jobs; `total` counts all that match; `cursor` continues after the page and is None at the end."""

    schema_name: ClassVar[str] = "slurm.jobs.v7"

    jobs: tuple[Job, ...]
    total: int
    cursor: str | None = None


class CountJobs(Wire):
    """Count the jobs that match a list's filters, by state. Its `states`, its order and its page count for nothing."""

    schema_name: ClassVar[str] = "slurm.count.v1"

    request: ListJobs
    fresh: bool = False
    """That of `ListWatched`, where the replica that watches the cluster is asked."""


class JobCounts(Wire):
    """How many jobs match, by state. A pending array is one job, as in a list."""

    schema_name: ClassVar[str] = "slurm.counts.v1"

    states: dict[str, int]
    """A state that no job has is left out."""
    total: int


class Cancel(Wire):
    """Cancel a job, an array task or a whole array on behalf of the viewer."""

    schema_name: ClassVar[str] = "slurm.cancel.v3"

    viewer: Viewer
    job_id: JobId
