"""`event.<tenant>.<cluster>.<kind>`: facts, published once each, as CloudEvents 1.0 with typed data.

Events hold metadata only, never the script, environment or output of a job. The id of an event is derived from the
entity, its version and the kind, so publishing a fact again makes the same id.
"""

import operator
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Discriminator, FailFast, Field, StringConstraints, Tag

from clusterra_contracts.alternatives import AlternativesOfChange
from clusterra_contracts.condition import Reason
from clusterra_contracts.identity import ClusterRef, JobId, Moment, PastMoment, ShapeName, Wire, WorkerName

JobKind = Literal[
    "job.submitted",
    "job.running",
    "job.requeued",
    "job.completed",
    "job.failed",
    "job.cancelled",
    "job.timeout",
]
ActionKind = Literal[
    "action.hold", "action.release", "action.requeue", "action.signal", "action.update", "action.cancel", "action.warn"
]
"""`action.warn`: the owner is warned that the job of an idle session will be cancelled."""
NodeKind = Literal["node.registered", "node.drained", "node.undrained", "node.down", "node.removed"]
MisclassifiedKind = Literal["node.misclassified"]
MachineKind = Literal["node.launched", "node.terminated", "node.spot_interrupted"]
WorkerKind = Literal["worker.started", "worker.stopped", "worker.failed", "worker.lost"]
"""`worker.lost` is an alarm: the worker vanished although no desired state had named it; it may have run jobs."""
PriceKind = Literal["worker.priced"]
ScaleKind = Literal["scale.decided"]
ConditionKind = Literal["cluster.degraded", "cluster.recovered"]
FileKind = Literal["file.deleted", "file.renamed", "file.copied"]
StagingKind = Literal["job.staged"]
DigestKind = Literal["job.digest"]
SessionKind = Literal["session.ready"]
RunKind = Literal["run.started", "run.resumed", "run.completed", "run.failed", "run.cancelled"]
AdminKind = Literal[
    "cluster.registered",
    "cluster.changed",
    "cluster.paused",
    "cluster.resumed",
    "cluster.agent_key_rotated",
    "cluster.deleting",
    "tenant.created",
    "tenant.changed",
    "tenant.deleting",
    "user.created",
    "member.changed",
    "member.deleted",
    "token.created",
    "token.revoked",
    "token.rotated",
    "invitation.created",
    "invitation.revoked",
    "link.created",
    "link.revoked",
    "template.created",
    "template.changed",
    "template.reviewed",
    "template.published",
    "template.deleted",
    "schedule.created",
    "schedule.changed",
    "schedule.deleted",
    "quota.changed",
    "quota.deleted",
    "budget.changed",
    "budget.deleted",
    "webhook.created",
    "webhook.changed",
    "webhook.secret_rotated",
    "webhook.replayed",
    "webhook.deleted",
    "webhook.disabled",
    "webhook.test",
    "credential.created",
    "credential.revoked",
    "scim.user_created",
    "scim.user_changed",
    "scim.user_deleted",
    "scim.group_created",
    "scim.group_changed",
    "scim.group_deleted",
]
BudgetKind = Literal["budget.threshold"]
BudgetMeasure = Literal["actual", "forecast"]
"""What is compared with a threshold of a budget: what was used this month, or what the whole month will cost."""

MailType = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,31}$")]
"""A word of sbatch's `--mail-type`, such as `END`. A reader ignores those that it does not know."""
MAIL_TYPES: tuple[MailType, ...] = ("BEGIN", "END", "FAIL", "REQUEUE", "TIME_LIMIT", "ARRAY_TASKS")
"""The mail types that have an effect."""
MailTypes = Annotated[tuple[MailType, ...], Field(max_length=16, exclude_if=operator.not_), FailFast()]

AUDITED_KINDS: frozenset[str] = frozenset(
    {"job.submitted", *get_args(ActionKind), *get_args(AdminKind), *get_args(FileKind)}
)
"""The kinds of events in the audit: those that somebody caused. All others tell what Slurm or the machines did."""
AUDIT = "audit"
"""All of them, as a filter."""

AGENT_KINDS: tuple[str, ...] = (*get_args(WorkerKind), *get_args(MisclassifiedKind))
"""The kinds that edge-agents tell."""

JOB_END_OF_STATE: Mapping[str, JobKind] = {
    "COMPLETED": "job.completed",
    "CANCELLED": "job.cancelled",
    "TIMEOUT": "job.timeout",
    "DEADLINE": "job.timeout",
    "FAILED": "job.failed",
    "NODE_FAIL": "job.failed",
    "BOOT_FAIL": "job.failed",
    "OUT_OF_MEMORY": "job.failed",
    "PREEMPTED": "job.failed",
}
"""The kind of event that tells the end of a run, by the state of Slurm that it ended in."""
JOB_ENDS: frozenset[str] = frozenset(JOB_END_OF_STATE.values())
"""The kinds that end the run of a job."""


class JobFact(Wire):
    """What happened to a job or an array task, and its state at that time."""

    kind: JobKind
    job_id: JobId
    """`42` for a job or an array, `42_7` for task 7 of array 42."""
    name: str
    """Whoever submits the job chooses it."""
    user: str
    """The job's owner; `uid` is theirs."""
    uid: int
    partition: str
    state: str
    """Slurm's state, such as `RUNNING` or `NODE_FAIL`."""
    reason: str = ""
    """Why the job failed or was cancelled, such as `OutOfMemory`; empty before its end, and without a reason."""
    exit_code: int | None = None
    """None before the job's end, and where it has none."""
    nodes: Annotated[tuple[str, ...], FailFast()] = ()
    submitted_at: PastMoment
    started_at: PastMoment | None = None
    ended_at: PastMoment | None = None
    restarts: Annotated[int, Field(ge=0)] | None = None
    """How often Slurm had requeued the job before this run; None from a release that does not tell."""
    account: str = ""
    """Slurm's account that the job is booked on."""
    template: Annotated[str, Field(max_length=64)] = ""
    """The template that the job was made from, as its comment says; empty for none."""
    cpus: int | None = None
    """The CPUs allocated over all its nodes; None before it runs."""
    memory_mib: int | None = None
    """The memory allocated over all its nodes; None before it runs, or where Slurm does not report it."""
    gpus: dict[str, int] = Field(default_factory=dict)
    """The allocated GPUs by node. Nodes without any are left out."""
    time_limit_seconds: float | None = None
    """How long the run may take, as Slurm had it at this time; None without a limit."""
    mail: MailTypes = ()
    """What its owner is to get a mail about, as its `--mail-type` says, such as `END`. It has no address."""
    tasks_left: Annotated[int, Field(ge=0)] | None = Field(default=None, exclude_if=lambda each: each is None)
    """Of a task of an array: how many tasks of the array had not ended, as Slurm had it at this time. Left out for
    other jobs, and where it is not known. Tasks that end in the same second may have the same number."""


class JobActionFact(Wire):
    """Somebody acted on a job through Clusterra, and Slurm accepted it. What became of the job is in its own events."""

    kind: ActionKind
    job_id: JobId
    """The job, the task or the array."""
    tasks: str = ""
    """Those of an array's tasks that the action was for, in Slurm's notation; empty for the whole job."""
    name: str
    user: str
    """The job's owner; `uid` is theirs."""
    uid: int
    actor: str
    """The user name of whoever acted."""
    detail: str = ""
    """The signal that was sent, or the changed fields, such as `nice=100, time_limit=30`."""


class MachineSize(Wire):
    """CPUs, MiB of memory and GPUs."""

    cpus: int
    memory_mib: int
    gpus: int = 0
    gpu_model: str = ""
    """For an expected size, the shape's model name, such as `l4`. For an actual machine, NVIDIA's name, such as
    `NVIDIA L4`; empty when it is unknown."""


class NodeFact(Wire):
    """What happened to a Slurm node."""

    kind: NodeKind
    node: str
    states: Annotated[tuple[str, ...], FailFast()] = ()
    reason: str = ""
    size: MachineSize | None = None
    """What jobs can be allocated on the node; None from a release that does not tell, or for a removed node."""


class MisclassifiedFact(Wire):
    """A worker's machine does not have the resources of its shape, so its slurmd did not register."""

    kind: MisclassifiedKind = "node.misclassified"
    node: str
    shape: ShapeName
    expected: MachineSize
    actual: MachineSize


class MachineFact(Wire):
    """What the site's cloud told of the machine of a node. It says nothing about Slurm's record of the node."""

    kind: MachineKind
    node: str
    """The Slurm node, or the machine's id where the site does not say which node it is."""
    instance: str
    """The id that the cloud has given the machine."""


class WorkerFact(Wire):
    """What an edge did to a worker, or observed of it."""

    kind: WorkerKind
    worker: WorkerName
    shape: ShapeName
    reason: str = ""
    started_at: PastMoment | None = None
    """When this worker was started: its name may have been another worker's before."""


class PriceFact(Wire):
    """The price of a worker's machine from the event's time on, until the next such event of the same worker."""

    kind: PriceKind = "worker.priced"
    worker: WorkerName
    shape: ShapeName
    started_at: PastMoment
    """When the worker was started."""
    micro_usd_per_hour: Annotated[int, Field(ge=0)] | None
    """In millionths of a US dollar; None: unknown."""
    source: Literal["machine", "catalogue"]
    """`machine`: the edge reports the price of this very machine. `catalogue`: the list price of the shape, because the
    edge knows no prices."""
    stale: bool = False
    """Whether the edge has not confirmed the price for 90 s."""
    billable_from: PastMoment | None = None
    """When the machine was launched, where the edge reports it: it costs money from then on."""


class ShapeChange(Wire):
    """The part of a decision that concerns one shape."""

    shape: ShapeName
    replicas_before: int
    replicas_after: int
    victims: Annotated[tuple[WorkerName, ...], FailFast()] = ()
    reason: str
    """The purpose of the change, for people to read."""
    job_ids: Annotated[tuple[JobId, ...], FailFast()] = ()
    """The pending jobs that the change is for, at most 100 of them."""
    compared_jobs: Annotated[tuple[JobId, ...], FailFast(), Field(exclude_if=operator.not_)] = ()
    """Those of `job_ids` that ask for what the first of them asks for; empty without `alternatives`."""
    alternatives: Annotated[AlternativesOfChange, FailFast()] = ()
    """The shapes that were compared when workers were bought, for one of `compared_jobs` as if it were alone. Empty
    where none are bought for jobs, and from a release that does not tell."""


class ScaleFact(Wire):
    """A change of the desired state; `generation` is that of the new desired state."""

    kind: ScaleKind = "scale.decided"
    generation: int
    fence: int
    snapshot_generation: int
    changes: Annotated[tuple[ShapeChange, ...], FailFast()]


class ConditionFact(Wire):
    """A cluster is degraded for a reason, or no longer for this one; `since` is when this degradation began."""

    kind: ConditionKind
    reason: Reason
    message: str = ""
    """What is wrong, for people to read; empty when the cluster has recovered."""
    since: PastMoment


class AdminFact(Wire):
    """An administrative action; `actor` is a user name or a service."""

    kind: AdminKind
    actor: str
    subject: str
    """The object of the action: a cluster id, a user name, the id of a token, an invitation, a shared link, a template,
    a schedule or a webhook, the scope of a limit, the id of what was provisioned."""
    detail: str = ""
    """The new limit, where there is one; the job that a shared link shows; the name of a token, a schedule or a
    webhook; why a webhook was disabled."""
    before: str = ""
    """Of a changed member: the role before, such as `member`, or `member (disabled)`."""
    after: str = ""
    """The same after the change."""


class BudgetFact(Wire):
    """The costs of a month have reached a threshold of a budget. Each threshold has one event a month."""

    kind: BudgetKind = "budget.threshold"
    subject: str
    """The scope, such as `user:ada`; long ones are cut off."""
    scope: Literal["user", "account", "tenant"]
    name: str
    month: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")]
    measure: BudgetMeasure
    percent: Annotated[int, Field(ge=1)]
    """Of the limit."""
    limit_micro_usd: int
    """In millionths of a US dollar."""
    micro_usd: int
    """The costs that reached it."""


MAX_FACT_PATHS = 50
"""The most paths in one event. A request about more files makes several events."""


class FileFact(Wire):
    """Somebody deleted, renamed or copied files through Clusterra. Uploads and downloads bypass it, and have none."""

    kind: FileKind
    actor: str
    """The user name of whoever acted; `uid` is theirs."""
    uid: int
    paths: Annotated[tuple[str, ...], Field(max_length=MAX_FACT_PATHS), FailFast()]
    """The files, each as `data/x` of the actor's own ones or `shared/x`."""
    destination: str = ""
    """The new path of a file that was renamed or copied."""


class StagingFact(Wire):
    """The inputs of a job were staged in before its start, or its outputs were staged out after its end."""

    kind: StagingKind = "job.staged"
    job_id: JobId
    name: str
    user: str
    uid: int
    direction: Literal["in", "out"]
    state: Literal["done", "failed"]
    """`failed`: at least one file was not copied."""
    files: Annotated[int, Field(ge=0)]
    """How many were copied, and their `bytes`."""
    bytes: Annotated[int, Field(ge=0)]
    failed_files: Annotated[int, Field(ge=0)] = 0


MAX_DIGEST_TASKS = 20
"""The most tasks that a digest names."""


class DigestFact(Wire):
    """How the tasks of an array went since the digest before. It is made for a delivery: no stream holds it."""

    kind: DigestKind = "job.digest"
    job_id: JobId
    """The array."""
    name: str
    user: str
    uid: int
    number: Annotated[int, Field(ge=1)]
    """1 for the first digest of the array."""
    counts: Annotated[dict[str, int], Field(max_length=20)]
    """How many events of each kind, such as `job.completed`, there were since the digest before."""
    totals: Annotated[dict[str, int], Field(max_length=20)]
    """The same since the first digest, and with the failure that was told at once."""
    failed_tasks: Annotated[tuple[JobId, ...], Field(max_length=MAX_DIGEST_TASKS), FailFast()] = ()
    """The first of the tasks that failed or reached their time limit since the digest before."""
    tasks_left: Annotated[int, Field(ge=0)] | None = None
    """How many tasks had not ended, as Slurm had it at the last of these events; None where nobody knows."""
    since: PastMoment
    """The time of the first of these events."""
    until: PastMoment
    """The time of the last one."""
    mail: MailTypes = ()
    """What its owner is to get a mail about, as in the events of its tasks."""


class SessionFact(Wire):
    """The server of an interactive session takes connections for the first time: its page can be opened."""

    kind: SessionKind = "session.ready"
    job_id: JobId
    name: str
    user: str
    uid: int


class RunFact(Wire):
    """A run of a workflow started, was resumed, or ended. It has ended when none of its steps is under way any more."""

    kind: RunKind
    run_id: Annotated[str, Field(max_length=64)]
    name: str
    user: str
    uid: int
    steps: Annotated[dict[str, int], Field(max_length=20)] = Field(default_factory=dict)
    """Of an end: the number of steps in each state, such as `completed`."""
    failed_step: Annotated[str, Field(max_length=64)] = ""
    """Of a failed run: the first step that failed."""


class NewerFact(Wire):
    """A fact of a kind that only newer releases know, with all its fields. It is kept and passed on, never made.

    So a release may add a kind while services of the one before still run.
    """

    model_config = ConfigDict(frozen=True, extra="allow", json_schema_extra={"x-only-read": True})

    kind: Annotated[str, StringConstraints(pattern=r"^[a-z]{1,32}\.[a-z_]{1,64}$")]


_FACTS = (
    JobFact,
    JobActionFact,
    NodeFact,
    MisclassifiedFact,
    MachineFact,
    WorkerFact,
    PriceFact,
    ScaleFact,
    ConditionFact,
    AdminFact,
    BudgetFact,
    FileFact,
    StagingFact,
    DigestFact,
    SessionFact,
    RunFact,
)
_MODELS = {kind: fact for fact in _FACTS for kind in get_args(fact.model_fields["kind"].annotation)}
_NAMES = {kind: fact.__name__ for kind, fact in _MODELS.items()}

KINDS: tuple[str, ...] = tuple(_NAMES)
"""The kinds of all facts that this release knows."""


def kinds_of(name: str) -> frozenset[str]:
    """The kinds that a name means: one kind, all of a family (`job.*`), or all of the audit (`audit`); else none."""
    if name == AUDIT:
        return AUDITED_KINDS
    if name.endswith(".*"):
        return frozenset(kind for kind in KINDS if kind.startswith(name.removesuffix("*")))
    return frozenset({name}).intersection(KINDS)


def _fact_of(given: Any) -> str:
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    return _NAMES.get(kind, NewerFact.__name__) if isinstance(kind, str) else NewerFact.__name__


Fact = Annotated[
    Annotated[JobFact, Tag("JobFact")]
    | Annotated[JobActionFact, Tag("JobActionFact")]
    | Annotated[NodeFact, Tag("NodeFact")]
    | Annotated[MisclassifiedFact, Tag("MisclassifiedFact")]
    | Annotated[MachineFact, Tag("MachineFact")]
    | Annotated[WorkerFact, Tag("WorkerFact")]
    | Annotated[PriceFact, Tag("PriceFact")]
    | Annotated[ScaleFact, Tag("ScaleFact")]
    | Annotated[ConditionFact, Tag("ConditionFact")]
    | Annotated[AdminFact, Tag("AdminFact")]
    | Annotated[BudgetFact, Tag("BudgetFact")]
    | Annotated[FileFact, Tag("FileFact")]
    | Annotated[StagingFact, Tag("StagingFact")]
    | Annotated[DigestFact, Tag("DigestFact")]
    | Annotated[SessionFact, Tag("SessionFact")]
    | Annotated[RunFact, Tag("RunFact")]
    | Annotated[NewerFact, Tag("NewerFact")],
    Discriminator(_fact_of),
]


class Event(Wire):
    """A CloudEvent in structured JSON: the CloudEvents attributes, with the fact as `data`."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    schema_name: ClassVar[str] = "event.v4"

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, Field(min_length=1, max_length=200)]
    source: str
    """Who published the event, and where it happened: `/clusterra/<service>/<tenant>/<cluster>`."""
    type: str
    """`cloud.clusterra.<kind>`."""
    subject: str
    """The entity: a job id, a run id, a node, a worker, or the object of an administrative action."""
    time: PastMoment
    """When the fact happened, as far as known; not when it was published."""
    datacontenttype: Literal["application/json"] = "application/json"
    data: Fact

    @property
    def kind(self) -> str:
        """The kind of the fact."""
        return self.data.kind


def fact_model(kind: str) -> type[Wire]:
    """The model of the facts of a kind. Raises KeyError for a kind that this release does not know."""
    return _MODELS[kind]


def entity(fact: Fact) -> str:
    """The id of the entity that a fact is about. Raises ValueError for a fact of a newer release."""
    match fact:
        case JobFact() | JobActionFact() | StagingFact() | DigestFact() | SessionFact():
            return fact.job_id
        case RunFact():
            return fact.run_id
        case NodeFact() | MisclassifiedFact() | MachineFact():
            return fact.node
        case WorkerFact() | PriceFact():
            return fact.worker
        case ScaleFact():
            return "desired"
        case ConditionFact():
            return "condition"
        case AdminFact() | BudgetFact():
            return fact.subject
        case FileFact():
            return "files"
        case NewerFact():
            raise ValueError(f"this release does not know the kind {fact.kind}, so it makes no events of it")


def event_of(service: str, ref: ClusterRef, fact: Fact, *, version: str, time: Moment) -> Event:
    """Makes the event of a fact; its id is `<tenant>.<cluster>:<entity>:<version>:<kind>`.

    `version` distinguishes this occurrence from others of the same kind for the same entity: submit time and restart
    count for jobs, the beginning of the attempt for runs, a random id for actions and for files, the generation for
    decisions, the reason and its beginning for conditions.
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
