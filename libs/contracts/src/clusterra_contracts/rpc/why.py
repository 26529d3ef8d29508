"""`scaler.<tenant>.<cluster>.why`: why a job waits, what was bought for it, when it is to start and what it costs."""

from typing import ClassVar, Literal

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
"""What a job waits for. New nodes cure `nodes`, and `fitting node`, for which Slurm holds a job (priority 0)."""

PlaceKind = Literal["node", "draining", "booting", "ordered", "new"]
"""`node`: Slurm has it; `draining`: it was to go and is taken back; `booting`: the edge has started it; `ordered`: the
edge was told to start it; `new`: it is decided to be."""


class ExplainJob(Wire):
    """Explain a job, an array task, or an array; one that the viewer may not see is not found."""

    schema_name: ClassVar[str] = "why.explain.v1"

    viewer: Viewer
    job_id: JobId


class JobPlace(Wire):
    """A worker that a job runs on, or is to run on."""

    kind: PlaceKind
    worker: str | None = None
    """Also the name of its Slurm node; None before it has one."""
    shape: ShapeName | None = None
    """None for a node that is no worker of ours."""


class Purchase(Wire):
    """A change of the desired state that named the job, or one that asks for exactly the same."""

    decided_at: Moment
    generation: int
    shape: ShapeName
    workers: int
    """How many more of the shape there were to be."""
    reason: str
    """In words for a person: what the change was for."""


class Explanation(Wire):
    """What the scaler knows of a job that waits or runs, as of one look at the queue.

    Jobs that ask for the same, and the tasks of an array, are not told apart while they wait: places, and the moment at
    which the last of them is expected to start, are those of all of them.
    """

    schema_name: ClassVar[str] = "why.explanation.v1"

    job_id: JobId
    state: Literal["pending", "running"]
    """An array as a whole is pending as long as a task of it is."""
    reason: str = ""
    """Slurm's own word for why it waits; empty where it does not."""
    cause: Cause | None = None
    """What that word means; None where it does not wait, or for a word that no Slurm we know has."""
    text: str
    """For a person: why it waits, or where it runs."""
    places: tuple[JobPlace, ...] = ()
    """At most 100 are named."""
    bought: tuple[Purchase, ...] = ()
    """The last decision that bought for it, by shape; empty where none did since this scaler decides."""
    started_at: Moment | None = None
    """Of a running job; of several tasks the first."""
    expected_start: Moment | None = None
    """Of a waiting job; None where nobody can tell."""
    usd_per_hour: float | None = None
    """Its share, by CPU, of the price of its workers. All that runs of it; or, while it waits, one job or task of it.
    None while it has no place."""
    shadow: bool = False
    """The scaler decides and changes nothing."""
    generation: int
    """Of the desired state."""
    snapshot_generation: int
    as_of: Moment
    """When that look at the queue began."""
