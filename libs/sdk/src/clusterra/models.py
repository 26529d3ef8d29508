"""What the SDK reads of the gateway's answers, made by `make docs` from the OpenAPI document: do not edit."""

from datetime import date, datetime
from typing import Any

from clusterra.model_base import Model


class BegunUpload(Model):
    """An upload. Send `part_count` parts of `part_size` bytes, the last of which may be smaller."""

    upload_id: str
    path: str
    part_size: int
    part_count: int


class BusCredential(Model):
    """A bus credential."""

    id: str
    name: str
    public_key: str
    cluster_id: str | None
    subject: str
    created_by: str
    created_at: datetime
    renewed_at: datetime
    expires_at: datetime


class CompletedUpload(Model):
    """The file."""

    path: str
    size: int
    etag: str


class Degradation(Model):
    """One reason why a cluster is degraded."""

    reason: str
    message: str
    since: datetime


class EntryTicket(Model):
    """The way into a session: a form with the field `ticket`, posted to `url` once and within a minute."""

    url: str
    ticket: str
    valid_until: datetime


class EstimatedCost(Model):
    """What a job would cost at the prices of the cluster's catalogue: its share of its workers.

    `per_hour` and `at_most` are of the job with all its components, or of one task of an array; `total_at_most` is of
    all tasks. Both maxima are for the whole time limit, and null without one.
    """

    currency: str = "USD"
    per_hour: str
    at_most: str | None
    total_at_most: str | None


class EstimatedWorkers(Model):
    """Workers of one shape that the job would use."""

    kind: str
    shape: str | None = None
    count: int | None = None


class Event(Model):
    """A CloudEvent in structured JSON: the CloudEvents attributes, with the fact as `data`."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str = "application/json"
    data: dict[str, Any]


class EventPage(Model):
    """One page of events; `cursor` continues after it and is null at the end."""

    events: tuple[Event, ...]
    cursor: str | None = None
    kept_from: datetime | None = None


class Expected(Model):
    """What a job with the example needs, as it was estimated or measured by the author."""

    cpus: int
    memory_mib: int
    minutes: int
    gpus: int = 0
    nodes: int = 1


class InputView(Model):
    """An input: something that the job reads."""

    name: str
    role: str
    required: bool
    default: str | None
    format: str | None
    description: str
    columns: tuple[str, ...]


class JobCounts(Model):
    """How many jobs match the filters."""

    states: dict[str, int]
    total: int


class JobPlace(Model):
    """A worker that a job runs on, or is planned to run on."""

    kind: str
    worker: str | None = None
    shape: str | None = None


class Launched(Model):
    """What was submitted: a job, or for a workflow a run. One of `job_id` and `run_id` is null."""

    id: str
    version: int | None
    cluster_id: str
    job_id: str | None
    run_id: str | None
    repeated: bool
    output_dir: str | None
    warnings: tuple[str, ...]


class MadeLink(Model):
    """A new link. `token` and `path` hold its secret, and are shown only this once."""

    id: str
    job_id: str
    name: str
    shows: tuple[str, ...]
    made_by: str
    created_at: datetime
    expires_at: datetime
    token: str
    path: str


class MadeToken(Model):
    """A new token. `token` is the token itself, which is shown only this once."""

    id: str
    name: str
    created_at: datetime
    expires_at: datetime
    scopes: tuple[str, ...] | None
    last_used_at: datetime | None = None
    token: str


class MadeWebhook(Model):
    """A new webhook. `secret` verifies its deliveries, and is shown only this once."""

    id: str
    name: str
    url: str
    format: str
    kinds: tuple[str, ...]
    clusters: tuple[str, ...]
    users: tuple[str, ...]
    arrays: str
    enabled: bool
    state: str | None
    disabled_reason: str
    failing_since: datetime | None
    next_attempt_at: datetime | None
    deliver_from: datetime
    old_secret_until: datetime | None
    created_by: str
    created_at: datetime
    secret: str


class Member(Model):
    """A member: a person or a service account. `name` and `uid` are their Slurm identity."""

    id: str
    name: str
    uid: int
    email: str
    display_name: str
    role: str
    disabled: bool
    joined_at: datetime
    kind: str


class Money(Model):
    """An amount with six decimals, such as `1.250000`."""

    amount: str
    currency: str = "USD"


class MovedFile(Model):
    """The file at its destination."""

    path: str
    size: int


class NodeSummary(Model):
    """What the nodes of a cluster do. `by_state` counts them by Slurm's base state, `draining` those with that flag."""

    by_state: dict[str, int]
    draining: int
    cpus: int
    cpus_allocated: int


class NotDeleted(Model):
    """A file that was not deleted, and S3's word for the reason."""

    path: str
    reason: str


class Notifications(Model):
    """What the caller gets a mail about, and where it goes to."""

    enabled: bool
    address: str
    jobs_started: bool
    jobs_ended: bool
    jobs_failed: bool
    sessions_ready: bool
    runs_ended: bool
    budgets: bool


class OwnLink(Model):
    """A link of the caller without its secret, and the cluster of its job. All three ids are needed to revoke it."""

    id: str
    job_id: str
    name: str
    shows: tuple[str, ...]
    made_by: str
    created_at: datetime
    expires_at: datetime
    cluster_id: str


class OwnLinks(Model):
    """A page of links, in no order of time. It may have fewer than asked for; `cursor` is null at the end."""

    links: tuple[OwnLink, ...]
    cursor: str | None


class Owner(Model):
    """Whose files they are: a member's id, and the name to show."""

    id: str
    name: str


class ParameterView(Model):
    """A parameter, with what a form needs."""

    name: str
    type: str
    label: str
    default: Any
    options: tuple[bool | int | float | str, ...] | None
    min: int | float | None
    max: int | float | None
    required: bool
    advanced: bool
    description: str


class PolicyView(Model):
    """The scaling policy, as far as it is no limit by shape or number.

    `usd_per_hour` is the limit on the cost of all workers together, null without one. `idle_seconds` is the longest
    time that an idle worker is kept.
    """

    name: str
    idle_seconds: float
    usd_per_hour: str | None


class Purchase(Model):
    """A change of the desired state that named the job, or a job with an identical request."""

    decided_at: datetime
    generation: int
    shape: str
    workers: int
    reason: str


class QueueSummary(Model):
    """The queue as the proxy last published it. A number is null where Slurm did not tell it.

    `as_of` is when it was observed, and `stale` whether that is too long ago to decide anything from it. An array that
    waits counts as one job. `node_summary` is null also for clusters of thousands of jobs or nodes.
    """

    as_of: datetime
    stale: bool
    pending: int | None
    running: int | None
    nodes: int | None
    node_summary: NodeSummary | None
    unreadable: int


class Quota(Model):
    """A quota, and what is used of it this month."""

    scope: str
    name: str
    limit: Money
    mode: str
    buffer_percent: int
    month: str
    used: Money
    left: Money
    set_by: str
    set_at: datetime


class QuotaLeft(Model):
    """What is left of a quota after a submit."""

    kind: str
    name: str
    mode: str
    limit: Money
    left: Money


class QuotaList(Model):
    """All quotas that the caller may see."""

    quotas: tuple[Quota, ...]


class RotatedSecret(Model):
    """The new secret of a webhook, which is shown only this once; `id` is the webhook's."""

    id: str
    secret: str
    old_secret_until: datetime | None


class RunStep(Model):
    """A step of a run, as its owner sees it."""

    step_id: str
    depends_on: tuple[str, ...]
    state: str
    job_id: str | None
    job_state: str
    reason: str
    attempt: int
    earlier_jobs: tuple[str, ...]


class Schedule(Model):
    """A schedule. `last_job` or `last_run` is what its last submitted tick made."""

    id: str
    name: str
    template_id: str
    cluster_id: str
    cron: str
    missed: str
    paused: bool = False
    params: dict[str, Any]
    inputs: dict[str, Any]
    sbatch_override: dict[str, Any]
    confirmed_usd_per_hour: float | None = None
    mine: bool
    created_at: datetime
    next_tick: datetime
    last_tick: datetime | None
    last_outcome: str
    last_job: str | None
    last_run: str | None


class ServiceAccount(Model):
    """A service account. `name` and `uid` are its Slurm identity; `id` is its id as a member."""

    id: str
    name: str
    uid: int
    role: str
    scopes: tuple[str, ...] | None
    description: str
    disabled: bool
    created_at: datetime


class Session(Model):
    """A session. It is its owner's alone: nobody else sees it, whatever their role."""

    job_id: str
    template_id: str
    name: str
    state: str
    detail: str
    created_at: datetime
    idle_cull_min: int | None


class Shape(Model):
    """A kind of worker that the cluster may buy. `most` is the limit of its number, null without one."""

    name: str
    family: str
    vcpu: int
    memory_gib: float
    gpu_count: int
    gpu_model: str
    usd_per_hour: str
    most: int | None


class ShapeAlternative(Model):
    """One shape of the cluster, compared for one job or array task at the present prices, limits and failures.

    `usd_per_hour` is the list price of one worker, and `job_usd_per_hour` what the job would pay of its workers: its
    dominant share. `expected_usd` is what the policy `packing` compares: the USD that the job is expected to add in all
    on new workers of its own, with their boots, less a credit for the capacity that it leaves free. It may be negative.
    Both are null where a worker does not hold the job, and `expected_usd` also where list prices or the rule of the
    families decide.

    `verdict` says what becomes of the shape. `chosen`: the job runs on a worker of it, or is planned to. `preferred`:
    it would be bought, and nothing is bought now. `costlier`: it costs more, or as much and comes later. `unneeded`:
    the job alone would cost less here, and its place is on a worker that is there, is coming, or is shared. `by_rule`:
    the rule of the families takes another one. `limited`: a limit of the policy leaves no room. `unavailable`: its
    workers do not start at present. `too_small`: it lacks what `lacks` names. `not_for_it`: the job must not use it.
    `text` says it to people.
    """

    shape: str
    usd_per_hour: str
    job_usd_per_hour: str | None
    expected_usd: str | None
    verdict: str
    lacks: tuple[str, ...]
    text: str


class ShapeWorkers(Model):
    """All workers of a shape, but those that failed. `unpriced` of them have no known price, and count for 0 USD."""

    shape: str
    workers: int
    by_state: dict[str, int]
    usd_per_hour: str
    unpriced: int


class SharedLink(Model):
    """A link without its secret."""

    id: str
    job_id: str
    name: str
    shows: tuple[str, ...]
    made_by: str
    created_at: datetime
    expires_at: datetime


class SharedLinks(Model):
    """The valid links of a job."""

    links: tuple[SharedLink, ...]
    total: int


class SignedBusCredential(Model):
    """A bus credential with a new login at NATS."""

    id: str
    name: str
    public_key: str
    cluster_id: str | None
    subject: str
    created_by: str
    created_at: datetime
    renewed_at: datetime
    expires_at: datetime
    jwt: str
    account: str


class Stage(Model):
    """A stage of a job. `at` is null where the stage is not known, or has not come.

    `seconds_since_previous` counts from the stage before it whose time is known. `worker` and `shape` name what the
    stage tells of, `decision_generation` the desired state of a decision. `reason` is the one of the decision, or
    Slurm's for the end; `detail` is for people to read.
    """

    stage: str
    at: datetime | None
    seconds_since_previous: float | None = None
    detail: str = ""
    worker: str | None = None
    shape: str | None = None
    decision_generation: int | None = None
    reason: str = ""


class StageOutRule(Model):
    """Which files of the working directory are copied, as a pattern, and the folder of the bucket that they go to."""

    source: str
    destination: str


class StagedFile(Model):
    """A file in the bucket: `outputs/run1/a.txt`, and its size in bytes."""

    path: str
    size: int


class StagingPart(Model):
    """How far the copying in one direction is."""

    state: str
    files: int
    bytes: int
    failed_files: int
    errors: tuple[str, ...]


class StartedSession(Model):
    """A session that was submitted: the job with this id."""

    job_id: str
    template_id: str
    repeated: bool
    warnings: tuple[str, ...]
    quotas: tuple[QuotaLeft, ...] = ()


class StoredFile(Model):
    """A file in a list."""

    path: str
    size: int
    modified_at: datetime
    etag: str


class SubmittedScript(Model):
    """A job's batch script, as it was submitted."""

    cluster_id: str
    job_id: str
    script: str


class ThresholdView(Model):
    """A threshold, and when it was crossed this month."""

    measure: str
    percent: int
    crossed_at: datetime | None


class Timeline(Model):
    """The stages of a job by time: `submitted`, `decided`, `worker_started`, `registered`, `running`, `ended`.

    A worker that was there before has started before the submit. A job that was requeued has several runs. `complete`
    is false where the archive could not be read, or has more events than are read.
    """

    job_id: str
    as_of: datetime
    complete: bool
    stages: tuple[Stage, ...]


class Token(Model):
    """A token without its secret."""

    id: str
    name: str
    created_at: datetime
    expires_at: datetime
    scopes: tuple[str, ...] | None
    last_used_at: datetime | None = None


class Tokens(Model):
    """All tokens of a member."""

    tokens: tuple[Token, ...]
    total: int


class Upload(Model):
    """An upload that was neither completed nor aborted."""

    upload_id: str
    path: str
    begun_at: datetime


class UploadedPart(Model):
    """A part that the bucket has."""

    number: int
    size: int
    etag: str
    sha256: str | None


class UploadedParts(Model):
    """The parts that the bucket has, in their order. `next_after` reads on; null at the end."""

    path: str
    upload_id: str
    parts: tuple[UploadedPart, ...]
    next_after: int | None


class Uploads(Model):
    """Unfinished uploads."""

    uploads: tuple[Upload, ...]


class Webhook(Model):
    """A webhook, without its secrets."""

    id: str
    name: str
    url: str
    format: str
    kinds: tuple[str, ...]
    clusters: tuple[str, ...]
    users: tuple[str, ...]
    arrays: str
    enabled: bool
    state: str | None
    disabled_reason: str
    failing_since: datetime | None
    next_attempt_at: datetime | None
    deliver_from: datetime
    old_secret_until: datetime | None
    created_by: str
    created_at: datetime


class WebhookAttempt(Model):
    """The outcome of one attempt to deliver an event."""

    delivered: bool
    status: int | None
    answer_bytes: int
    seconds: float
    problem: str


class WebhookDelivery(Model):
    """An event that was sent to a webhook, and its last attempt."""

    message_id: str
    event_id: str
    kind: str
    cluster_id: str
    subject: str
    time: datetime
    attempts: int
    given_up: bool
    last: WebhookAttempt


class Worker(Model):
    """A worker. `state` is null where only Slurm could tell, and its nodes could not be read.

    `since` is when it began to boot or to be idle. `machine` is the name of what it runs on. `price_source` is
    `machine` for the present price of this very machine, `catalogue` for the list price of the shape, where the edge
    knows no prices; both are null where no price is known now. `running_jobs` counts all jobs on it, and `job_ids` has
    those that the caller sees, 20 at most. `leaves_by` is when its machine will be reclaimed, where that was announced.
    """

    name: str
    shape: str
    phase: str
    state: str | None
    since: datetime | None
    started_at: datetime
    reason: str
    machine: str
    leaves_by: datetime | None
    cpus: int | None
    cpus_allocated: int | None
    usd_per_hour: str | None
    price_source: str | None
    running_jobs: int
    job_ids: tuple[str, ...]


class Workers(Model):
    """One page of workers by name, and the sums over all pages. `cursor` is null at the end.

    `workers` is null before the first heartbeat. `as_of` is when the edge told of them, and `queue_as_of` when Slurm's
    nodes and jobs were read, null where they could not be, or too long ago.
    """

    workers: tuple[Worker, ...] | None
    shapes: tuple[ShapeWorkers, ...]
    total: int
    cursor: str | None
    as_of: datetime | None
    queue_as_of: datetime | None


class Workspace(Model):
    """The caller's tenant."""

    id: str
    name: str


class Budget(Model):
    """A budget, and how much of it is used this month. An amount is null while nothing of it is known."""

    scope: str
    name: str
    limit: Money
    month: str
    actual: Money | None
    forecast: Money | None
    thresholds: tuple[ThresholdView, ...]
    stale: bool
    unknown: bool
    as_of: datetime
    set_by: str
    set_at: datetime


class BudgetList(Model):
    """All budgets that the caller may see."""

    budgets: tuple[Budget, ...]


class Cluster(Model):
    """A cluster. `state` is `active`, `paused` or `deleting`; `connection_state` is that of its edge.

    `degraded` has the reasons why the cluster does not work fully: none for a healthy one, null when it is not known.
    """

    id: str
    name: str
    state: str
    connection_state: str
    degraded: tuple[Degradation, ...] | None


class ClusterDetail(Model):
    """A cluster, the shapes that it may buy at the prices of its catalogue, its policy, and its queue.

    `queue` is null before the proxy has seen the cluster's Slurm, or when the queue cannot be read now.
    """

    id: str
    name: str
    state: str
    connection_state: str
    degraded: tuple[Degradation, ...] | None
    partition: str
    max_workers: int
    shapes: tuple[Shape, ...]
    policy: PolicyView | None = None
    queue: QueueSummary | None


class Clusters(Model):
    """All clusters of the caller's tenant."""

    clusters: tuple[Cluster, ...]
    total: int


class Cost(Model):
    """What a job cost, with all its runs, until `as_of`."""

    total: Money | None
    as_of: datetime
    stale: bool
    unknown: bool


class CostEntry(Model):
    """What something cost. Fields of dimensions that were not asked for are null."""

    purpose: str
    day: date | None
    user: str | None
    account: str | None
    template: str | None = None
    job_id: str | None
    name: str | None
    worker: str | None
    shape: str | None
    cost: Money | None
    hours: float
    stale: bool
    unknown: bool


class CostReport(Model):
    """Rows of costs, and the sums over all pages. Shares and overhead are the bill, exactly."""

    cluster_id: str
    first: date
    last: date
    rows: tuple[CostEntry, ...]
    shares: Money
    overhead: Money
    bill: Money
    as_of: datetime
    stale: bool
    unknown: bool
    cursor: str | None


class Costs(Model):
    """What the caller's jobs cost, over all clusters, exactly. Months are those of UTC."""

    burn_rate_per_hour: Money | None
    pending_bill: Money | None
    month_to_date: Money | None
    forecast: Money | None
    as_of: datetime | None
    stale: bool
    unknown: bool


class DeletedFiles(Model):
    """What was deleted, and what was not. A file that does not exist counts as deleted."""

    deleted: tuple[str, ...]
    failed: tuple[NotDeleted, ...]


class Estimate(Model):
    """What the planner would do for a job that is submitted now, at `as_of`. Nothing is reserved.

    `wait` tells what the job, or the last of its tasks that may run at once, would wait for, and `text` tells it to
    people. `workers` are those that it would use. `expected_start` is that of the job or of its first task,
    `expected_last_start` that of its last task; null where nobody knows. `cost` is null where no worker would do.
    `alternatives` are the shapes of the cluster, compared for the job or one task, the nearest first, 20 at most.
    `shadow` means that the scaler buys nothing. `warnings` are those that a submit would answer.
    """

    wait: str
    cause: str | None
    text: str
    workers: tuple[EstimatedWorkers, ...]
    nodes: int
    tasks: int
    expected_start: datetime | None
    expected_last_start: datetime | None
    time_limit_seconds: float | None
    cost: EstimatedCost | None
    alternatives: tuple[ShapeAlternative, ...] = ()
    shadow: bool
    warnings: tuple[str, ...]
    as_of: datetime


class ExpectedCost(Model):
    """What a job is expected to cost, on the cheapest workers that could run it."""

    usd_per_hour: Money
    total: Money | None
    shapes: tuple[str, ...]


class Explanation(Model):
    """Why a job waits, where it runs, or how it ended.

    Of a waiting or running job: Slurm's `reason`, its `cause`, the planned `places`, what was `bought` for it, and
    `expected_start`. Of a job that has ended: `final_state`, `exit_code`, `signal`, `cancelled_by`, `ended_at`.
    `usd_per_hour` is its share of the price of its workers. `generation` is that of the desired state, and 0 where the
    scaler has not planned with the job yet, or no longer does. `alternatives` are the shapes of the cluster, the
    nearest first, 20 at most: none where the planner does not plan for the job. Of a job that has ended they are the
    nearest 5 of the time at which workers were last bought for it, `alternatives_as_of`, at the prices, limits and
    failures of then, for a job with the same request: none where it ran on workers that were there or had been ordered.
    `as_of` is when the rest was true.
    """

    job_id: str
    state: str
    reason: str = ""
    cause: str | None = None
    text: str
    places: tuple[JobPlace, ...] = ()
    bought: tuple[Purchase, ...] = ()
    started_at: datetime | None = None
    expected_start: datetime | None = None
    usd_per_hour: float | None = None
    alternatives: tuple[ShapeAlternative, ...] = ()
    alternatives_as_of: datetime | None = None
    shadow: bool = False
    generation: int = 0
    snapshot_generation: int = 0
    as_of: datetime
    final_state: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    cancelled_by: str | None = None
    ended_at: datetime | None = None


class FilePage(Model):
    """A page of a folder. `next_cursor` reads on; null at the end.

    `owner` is null for the area `shared`. `unreadable` counts objects whose names no path can have: other programs put
    them there.
    """

    path: str
    owner: Owner | None
    folders: tuple[str, ...]
    files: tuple[StoredFile, ...]
    unreadable: int
    next_cursor: str | None


class Launchable(Model):
    """A template without its script. `ready`: it can be submitted."""

    id: str
    name: str
    description: str
    kind: str
    ready: bool
    tools: tuple[str, ...]
    category: str
    origin: str
    version: int | None
    parameters: tuple[ParameterView, ...]
    inputs: tuple[InputView, ...]
    parent_id: str | None
    static_values: dict[str, Any]
    schema_values: dict[str, Any]
    pipeline_repo: str | None
    expected: Expected | None


class LaunchableList(Model):
    """What can be submitted: templates, presets and workflows as one list."""

    launchables: tuple[Launchable, ...]
    total: int


class Profile(Model):
    """The caller. `name` and `uid` are their Slurm identity where Clusterra allocates it.

    The costs are null when they are not known now.
    """

    id: str
    name: str
    uid: int
    email: str
    display_name: str
    tenant: Workspace
    role: str
    burn_rate_usd_per_hour: float | None
    pending_bill_usd: float | None
    running_jobs: int | None
    as_of: datetime | None
    costs: Costs | None
    session_expires_at: datetime
    kind: str


class Run(Model):
    """A run, with its steps in the order in which they are submitted."""

    run_id: str
    run_name: str
    user: str
    state: str
    created_at: datetime
    steps: tuple[RunStep, ...]


class StageOutPart(Model):
    """How far the copying of a job's results is, and where they are."""

    state: str
    files: int
    bytes: int
    failed_files: int
    errors: tuple[str, ...]
    rules: tuple[StageOutRule, ...] = ()
    copied: tuple[StagedFile, ...] = ()


class SubmittedJob(Model):
    """Slurm accepted the job. `quotas` has what is left of each quota that counts it."""

    job_id: str
    accepted_at: datetime
    repeated: bool = False
    warnings: tuple[str, ...] = ()
    quotas: tuple[QuotaLeft, ...] = ()
    expected: ExpectedCost | None = None


class JobStaging(Model):
    """How far the staging of a job is: all in all, and in each direction; null for a direction without files."""

    state: str
    files: int
    bytes: int
    failed_files: int
    errors: tuple[str, ...]
    stage_in: StagingPart | None
    stage_out: StageOutPart | None


class JobRecord(Model):
    """A job as its owner sees it, with its cost."""

    job_id: str
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
    tasks: int = 1
    cpus_per_task: int = 1
    cpus_per_node: int = 1
    min_nodes: int | None = None
    max_nodes: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_per_gpu_mib: int | None = None
    all_memory: bool = False
    exclusive: bool = False
    constraints: str = ""
    gres: str = ""
    time_limit_seconds: float | None = None
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    restarts: int = 0
    array_tasks: str = ""
    unstarted_tasks: str = ""
    standard_output: str = ""
    standard_error: str = ""
    peak_memory_mib: int | None = None
    cpu_efficiency: float | None = None
    cancelled_by: str | None = None
    het_job_id: str | None = None
    het_offset: int = 0
    het_components: tuple[str, ...] = ()
    template: str = ""
    cost: Cost | None = None
    staging: JobStaging | None = None


class JobPage(Model):
    """One page of jobs; `total` counts all that match; `cursor` continues after the page and is null at the end.

    `costs` has the cost of each job by its id. It is null where it was not asked for.
    """

    jobs: tuple[JobRecord, ...]
    total: int
    cursor: str | None = None
    costs: dict[str, Any] | None = None
