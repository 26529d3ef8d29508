"""Events that a cluster's own site tells over HTTP: `POST /v1/internal/events` (one) and `/v1/internal/batch` (many).

One event has the envelope that EventBridge delivers. Its `source` says of what it is: `clusterra.slurm` of a job, from
a hook of the site's own Slurm; `aws.ec2` or `clusterra.infra` of a machine. A batch has the documented tables.

A detail of a job is its whole record at that time, not one step of it. It proves every event up to its state. So a
record whose predecessor was lost makes up for it.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, FailFast, Field, RootModel, StringConstraints, model_validator

from clusterra_contracts.events import MachineKind
from clusterra_contracts.identity import Id, JobId, PastMoment, Wire

EVENTS_PATH = "/v1/internal/events"
BATCH_PATH = "/v1/internal/batch"
TENANT_HEADER = "X-Tenant-ID"
CLUSTER_HEADER = "X-Cluster-ID"

MAX_RECORDS = 200
"""The most records of a batch."""
MAX_NODES = 5000
"""The most nodes of one job. Beyond that a hook leaves them out."""

_Word = Annotated[str, StringConstraints(max_length=255)]
_NodeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]

Rows = Annotated[tuple[Any, ...], Field(max_length=MAX_RECORDS), FailFast()]


def _upper(given: object) -> object:
    return given.upper() if isinstance(given, str) else given


class _Told(Wire):
    """Who is meant. Unknown fields are ignored, so that newer hooks can add some."""

    tenant_id: Id | None = None
    """The tenant and the cluster that the sender means. They must be those of its key."""
    cluster_id: Id | None = None


class JobDetail(_Told):
    """The record of a job or an array task at one time, as the hooks of Slurm know it. Texts are kept, never read."""

    job_id: JobId
    """`42` for a job, `42_7` for task 7 of array 42."""
    name: Annotated[str, StringConstraints(max_length=1024)] = ""
    user: _Word
    uid: Annotated[int, Field(ge=0, le=2**32 - 1, strict=True)]
    account: _Word = ""
    partition: _Word = ""
    state: Annotated[str, BeforeValidator(_upper), StringConstraints(pattern=r"^[A-Z_]{1,32}$")]
    """Slurm's base state. A state that is no end, such as `RUNNING`, proves no end."""
    exit_code: Annotated[int, Field(ge=0, le=255, strict=True)] | None = None
    nodes: Annotated[tuple[_NodeName, ...], Field(max_length=MAX_NODES), FailFast()] = ()
    submitted_at: PastMoment
    """With `restarts` it tells this run from others of the job: Slurm sets it anew when it requeues a job."""
    started_at: PastMoment | None = None
    """None for a job that never ran."""
    ended_at: PastMoment | None = None
    restarts: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0


class MachineDetail(_Told):
    """What EventBridge tells of an EC2 instance. A change of its state has `state`, a warning `instance-action`."""

    instance_id: Annotated[_NodeName, Field(alias="instance-id")]
    node: _NodeName | None = None
    """The Slurm node on this machine, where the sender knows it; None: the instance's id stands for it."""
    state: Annotated[str, StringConstraints(max_length=32)] = ""
    instance_action: Annotated[str, StringConstraints(max_length=32), Field(alias="instance-action")] = ""


_JobType = Literal[
    "job.submitted",
    "job.allocated",
    "job.started",
    "job.running",
    "job.requeued",
    "job.ended",
    "job.completed",
    "job.failed",
    "job.cancelled",
    "job.timeout",
]


class _Envelope(_Told):
    id: Annotated[str, StringConstraints(max_length=128)] = ""
    """EventBridge's own. What is told again has the same id of an event whatever this one is."""


class JobHookEvent(_Envelope):
    """An event of a job, from a hook of Slurm."""

    source: Literal["clusterra.slurm"]
    detail_type: Annotated[_JobType, Field(alias="detail-type")]
    """For people who read along. What happened follows from the detail."""
    detail: JobDetail


MachineType = Literal["EC2 Instance State-change Notification", "EC2 Spot Instance Interruption Warning"]
INTERRUPTION: MachineType = "EC2 Spot Instance Interruption Warning"


class MachineEvent(_Envelope):
    """An event of a machine, as EventBridge (once CloudWatch Events) delivers it to an API destination."""

    source: Literal["aws.ec2", "clusterra.infra"]
    detail_type: Annotated[MachineType, Field(alias="detail-type")]
    time: PastMoment
    detail: MachineDetail


class HookEvent(RootModel[Annotated[JobHookEvent | MachineEvent, Field(discriminator="source")]]):
    """One event that a site tells."""


class MachineRecord(_Told):
    """A row of the table `nodes` in a batch."""

    instance_id: _NodeName
    node: _NodeName | None = None
    state: MachineKind
    time: PastMoment


class JobRows(Wire):
    """The table `jobs`: each row is a `JobDetail`."""

    update: Rows = ()


class MachineRows(Wire):
    """The table `nodes`: each row is a `MachineRecord`."""

    upsert: Rows = ()


class HookTables(Wire):
    """Rows by table, unread: one bad row is one bad row."""

    jobs: JobRows = JobRows()
    nodes: MachineRows = MachineRows()


class HookBatch(_Told):
    """Many records at once, at most `MAX_RECORDS`."""

    cluster_id: Id
    tables: HookTables

    @model_validator(mode="after")
    def _few(self) -> Self:
        if len(self.tables.jobs.update) + len(self.tables.nodes.upsert) > MAX_RECORDS:
            raise ValueError(f"a batch has at most {MAX_RECORDS} records")
        return self


class ToldEvent(Wire):
    """An event that a record proves."""

    id: str
    kind: str
    is_new: bool
    """False: it was told before, and is not published again."""


class HookAnswer(Wire):
    """The events that one record proves, in their order. There are none for what is no event, such as `pending`."""

    events: tuple[ToldEvent, ...]


class RecordAnswer(Wire):
    """What became of one record of a batch."""

    table: Literal["jobs", "nodes"]
    index: Annotated[int, Field(ge=0)]
    """Its place in its table, from 0."""
    events: tuple[ToldEvent, ...] = ()
    problem: str = ""
    """Why it was refused; empty where it was taken."""


class BatchAnswer(Wire):
    """What became of each record, in their order, jobs first."""

    accepted: Annotated[int, Field(ge=0)]
    refused: Annotated[int, Field(ge=0)]
    records: tuple[RecordAnswer, ...]
