"""`scaler.<tenant>.<cluster>.why`: why a job waits, what was bought for it, when it should start, what it costs."""

from typing import ClassVar, Literal

from clusterra_contracts.alternatives import Alternatives
from clusterra_contracts.identity import JobId, Moment, ShapeName, Wire
from clusterra_contracts.rpc.slurm import Viewer

Cause = Literal[
    "nodes",
    "fitting node",
    "time",
    "dependency",
    "throttle",
    "licence",
    "limit",
    "account",
    "reservation",
    "partition",
    "hold",
    "failure",
    "device",
    "site",
]
"""What a job waits for. New nodes resolve `nodes` and `fitting node`; for the latter, Slurm holds the job
(priority 0)."""

PlaceKind = Literal["node", "draining", "booting", "ordered", "new"]
"""`node`: a node that Slurm knows; `draining`: a node whose drain is being cancelled; `booting`: the edge has started
the worker; `ordered`: the desired state contains the worker; `new`: the worker was just decided."""


class ExplainJob(Wire):
    """Explain a job, an array task or an array. A job that the viewer may not see counts as not found."""

    schema_name: ClassVar[str] = "why.explain.v3"

    viewer: Viewer
    job_id: JobId


class JobPlace(Wire):
    """A worker that a job runs on, or is planned to run on."""

    kind: PlaceKind
    worker: str | None = None
    """The name of the worker and of its Slurm node; None while the worker has no name yet."""
    shape: ShapeName | None = None
    """None for a node that is not one of our workers."""


class Purchase(Wire):
    """A change of the desired state that named the job, or a job with an identical request."""

    decided_at: Moment
    generation: int
    shape: ShapeName
    workers: int
    """The number of additional workers of the shape."""
    reason: str
    """The purpose of the change, for people to read."""


class Explanation(Wire):
    """What the scaler knows about a waiting or running job, as of one snapshot of the queue.

    Waiting jobs with identical requests, and the tasks of an array, are not distinguished: `places` and the expected
    start of the last of them apply to all of them.
    """

    schema_name: ClassVar[str] = "why.explanation.v2"

    job_id: JobId
    state: Literal["pending", "running"]
    """An array is pending as long as one of its tasks is pending."""
    reason: str = ""
    """Slurm's reason why the job waits; `Suspended` for a suspended one; empty for one that runs."""
    cause: Cause | None = None
    """The meaning of the reason; None when the job does not wait, or when the reason is unknown to us."""
    text: str
    """Why the job waits or where it runs, for people to read."""
    places: tuple[JobPlace, ...] = ()
    """The workers of the job, at most 100 of them."""
    bought: tuple[Purchase, ...] = ()
    """The last decision that bought workers for the job, by shape; empty if there was none since this scaler took over
    the cluster."""
    started_at: Moment | None = None
    """The start of a running job; of an array, the start of its first task."""
    expected_start: Moment | None = None
    """The expected start of a waiting job; None when it cannot be estimated."""
    usd_per_hour: float | None = None
    """The job's share, by CPU, of the price of its workers: of everything that runs of it, or, while it waits, of one
    job or task. None while it has no worker."""
    alternatives: Alternatives = ()
    """The shapes, compared for one job or task at the present prices, limits and failures."""
    shadow: bool = False
    """Whether the scaler is in shadow mode: it decides and changes nothing."""
    generation: int
    """The generation of the desired state."""
    snapshot_generation: int
    as_of: Moment
    """When the read of the queue began."""
