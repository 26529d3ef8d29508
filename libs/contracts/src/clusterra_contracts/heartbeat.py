"""`heartbeat`: the full state of an edge, published every 5 s and on every change."""

from typing import Annotated, ClassVar, Literal

from pydantic import FailFast, Field

from clusterra_contracts.identity import NearMoment, PastMoment, ShapeName, Wire, WorkerName
from clusterra_contracts.versions import Contracts

WorkerPhase = Literal["booting", "running", "terminating", "failed"]
"""`booting`: started, slurmd not known to serve yet; `running`: slurmd serves; `failed`: the worker ended by itself."""

StuckCause = Literal["insufficient_capacity", "image_pull", "quota", "misclassified", "other"]
"""`misclassified`: the machine does not have the resources of its shape, so its slurmd does not register."""

Lifecycle = Literal["spot", "on-demand"]
"""Karpenter's capacity type."""

HEARTBEAT_SECONDS = 5.0
MAX_DECODED_BYTES = 8 * 1024 * 1024
"""The largest heartbeat that is read: that of 5,000 workers and machines with all prices has about half of this."""
_CLUSTER_BYTES = 2 * 1024 * 1024
"""All prices of a region's machines take about half of this."""
_WORKER_BYTES = 1024
"""A worker with its machine takes about half of this."""

# FailFast below: a list is rejected at its first invalid entry. A report of a million errors takes a gigabyte.


def max_decoded_bytes(max_workers: int) -> int:
    """The largest heartbeat of a cluster that may have so many workers."""
    return min(_CLUSTER_BYTES + max_workers * _WORKER_BYTES, MAX_DECODED_BYTES)


class Worker(Wire):
    """A worker as its substrate reports it."""

    name: WorkerName
    shape: ShapeName
    phase: WorkerPhase
    started_at: PastMoment
    reason: str = ""
    node: str = ""
    """The machine that the worker runs on, as in `nodes` and `node_claims`; empty where it is unknown."""
    leaves_by: NearMoment | None = None
    """When the machine will be reclaimed, where that was announced, as for spot machines."""


class Stuck(Wire):
    """Why workers of a shape do not start."""

    shape: ShapeName
    cause: StuckCause
    workers: Annotated[int, Field(ge=0)]
    """The number of workers that wait for this cause; 0 where none could be created, as under a quota."""
    message: str
    """The substrate's message for one of these workers."""


class Node(Wire):
    """A machine that workers run on: a Kubernetes Node."""

    name: str
    ready: bool
    created_at: PastMoment
    instance_type: str = ""
    instance_id: str = ""


class NodeClaim(Wire):
    """A machine that Karpenter has ordered. Fields are empty where Karpenter does not report them yet."""

    name: str
    nodepool: str = ""
    instance_id: str = ""
    instance_type: str = ""
    lifecycle: Lifecycle | None = None
    zone: str = ""
    node_name: str = ""
    launched: bool
    billable_from: PastMoment
    """When the machine was launched, else when the NodeClaim was created: it costs money from then on."""


class Price(Wire):
    """The current price of a machine, in US dollars per hour."""

    instance_type: str
    lifecycle: Lifecycle
    zone: str
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Applied(Wire):
    """The last desired state that the edge applied."""

    generation: int
    fence: int
    applied_at: PastMoment
    """When the substrate had accepted the change (a process started, a PATCH acknowledged)."""


class Heartbeat(Wire):
    """The full state of an edge.

    A list that is None could not be read, or the substrate has no such objects; an empty list means none.
    """

    schema_name: ClassVar[str] = "heartbeat.v6"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every heartbeat of a cluster, also over restarts (milliseconds of the epoch)."""
    sent_at: PastMoment
    agent_version: str
    contracts: Contracts | None = None
    """The generations of the contracts that the agent can work with; None from agents before this field."""
    login_expires_at: NearMoment | None = None
    """When the agent's login at NATS ends; None where it does not within ten years, or is not known to."""
    substrate: Literal["process", "kubernetes"]
    applied: Applied | None = None
    workers: Annotated[tuple[Worker, ...], FailFast()] | None
    stuck: Annotated[tuple[Stuck, ...], FailFast()] | None = None
    nodes: Annotated[tuple[Node, ...], FailFast()] | None = None
    node_claims: Annotated[tuple[NodeClaim, ...], FailFast()] | None = None
    prices: Annotated[tuple[Price, ...], FailFast()] | None = None
    """All prices known to the edge. On None, receivers keep the last prices until they are 90 s old."""
