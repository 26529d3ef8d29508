"""`event.<tenant>.<cluster>.<kind>`: facts, told once each, as CloudEvents 1.0 with typed data.

Metadata only: no script, environment or output of a job is ever in an event. An event's id is made from the
entity, its version and the kind, so that telling a fact again makes the same id.
"""

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field

from clusterra_contracts.identity import ClusterRef, JobId, Moment, ShapeName, Wire, WorkerName

JobKind = Literal[
    "job.submitted",
    "job.running",
    "job.requeued",
    "job.completed",
    "job.failed",
    "job.cancelled",
    "job.timeout",
]
NodeKind = Literal["node.registered", "node.drained", "node.undrained", "node.down", "node.removed"]
MisclassifiedKind = Literal["node.misclassified"]
WorkerKind = Literal["worker.started", "worker.stopped", "worker.failed", "worker.lost"]
"""`worker.lost` is an alarm: it was removed by somebody else though nobody had named it; it may have run jobs."""
ScaleKind = Literal["scale.decided"]
AdminKind = Literal["cluster.registered", "user.created", "token.created", "token.revoked"]

JOB_ENDS: frozenset[str] = frozenset({"job.completed", "job.failed", "job.cancelled", "job.timeout"})
"""The kinds after which a job's run is over."""


class JobFact(Wire):
    """What happened to a job (or an array task) and the state it was in."""

    kind: JobKind
    job_id: JobId
    name: str
    user: str
    uid: int
    partition: str
    state: str
    """Slurm's state, such as `RUNNING` or `NODE_FAIL`."""
    reason: str = ""
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    submitted_at: Moment
    started_at: Moment | None = None
    ended_at: Moment | None = None


class NodeFact(Wire):
    """What happened to a Slurm node."""

    kind: NodeKind
    node: str
    states: tuple[str, ...] = ()
    reason: str = ""


class MachineSize(Wire):
    """CPUs, MiB of memory and GPUs."""

    cpus: int
    memory_mib: int
    gpus: int = 0
    gpu_model: str = ""
    """Promised: the shape's word. Of a machine: NVIDIA's, such as `NVIDIA L4`; empty when it is not known."""


class MisclassifiedFact(Wire):
    """A worker's machine is not what its shape promises: its slurmd has refused to register."""

    kind: MisclassifiedKind = "node.misclassified"
    node: str
    shape: ShapeName
    expected: MachineSize
    actual: MachineSize


class WorkerFact(Wire):
    """What an edge did with, or saw of, a worker."""

    kind: WorkerKind
    worker: WorkerName
    shape: ShapeName
    reason: str = ""


class ShapeChange(Wire):
    """One shape's part of a decision."""

    shape: ShapeName
    replicas_before: int
    replicas_after: int
    victims: tuple[WorkerName, ...] = ()
    reason: str
    """In words for a person: what the change is for."""
    job_ids: tuple[JobId, ...] = ()
    """The pending jobs it was made for; at most 100 are named."""


class ScaleFact(Wire):
    """A change of the desired state. `generation` is the new desired state's."""

    kind: ScaleKind = "scale.decided"
    generation: int
    fence: int
    snapshot_generation: int
    changes: tuple[ShapeChange, ...]


class AdminFact(Wire):
    """What somebody did to the account: `actor` is a user name or a service."""

    kind: AdminKind
    actor: str
    subject: str
    """What it was done to: a cluster id, a user name, a token's id."""


Fact = Annotated[
    JobFact | NodeFact | MisclassifiedFact | WorkerFact | ScaleFact | AdminFact, Field(discriminator="kind")
]

KINDS: tuple[str, ...] = tuple(
    kind for fact in get_args(get_args(Fact)[0]) for kind in get_args(fact.model_fields["kind"].annotation)
)
"""Of all facts."""


class Event(Wire):
    """A CloudEvent in structured JSON: the CloudEvents attributes, with the fact as `data`."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    schema_name: ClassVar[str] = "event.v1"

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, Field(min_length=1, max_length=200)]
    source: str
    """The service that tells it: `/clusterra/<service>/<tenant>/<cluster>`."""
    type: str
    """`cloud.clusterra.<kind>`."""
    subject: str
    """The entity: a job id, a node, a worker, a cluster."""
    time: Moment
    """When it happened, as far as known; not when it was told."""
    datacontenttype: Literal["application/json"] = "application/json"
    data: Fact

    @property
    def kind(self) -> str:
        """The fact's kind."""
        return self.data.kind


def entity(fact: Fact) -> str:
    """What a fact is about."""
    match fact:
        case JobFact():
            return fact.job_id
        case NodeFact() | MisclassifiedFact():
            return fact.node
        case WorkerFact():
            return fact.worker
        case ScaleFact():
            return "desired"
        case AdminFact():
            return fact.subject


def event_of(service: str, ref: ClusterRef, fact: Fact, *, version: str, time: Moment) -> Event:
    """Make the event of a fact; its id is `<tenant>.<cluster>:<entity>:<version>:<kind>`.

    `version` tells this occurrence from others of the same kind for the same entity: a submit time and a
    restart count for jobs, a generation for decisions.
    """
    about = entity(fact)
    return Event(
        id=f"{ref.key}:{about}:{version}:{fact.kind}",
        source=f"/clusterra/{service}/{ref.tenant}/{ref.cluster}",
        type=f"cloud.clusterra.{fact.kind}",
        subject=about,
        time=time,
        data=fact,
    )
