"""`heartbeat`: what an edge has, told every 5 s and on every change."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName

WorkerPhase = Literal["booting", "running", "terminating", "failed"]
"""`booting`: started, not known to serve yet; `running`: its slurmd serves; `failed`: ended by itself."""

StuckCause = Literal["insufficient_capacity", "image_pull", "quota", "misclassified", "other"]
"""`misclassified`: the machine is not what its shape promises, so its slurmd refuses to register."""

Lifecycle = Literal["spot", "on-demand"]
"""Karpenter's capacity type."""

HEARTBEAT_SECONDS = 5.0


class Worker(Wire):
    """A worker as its substrate sees it."""

    name: WorkerName
    shape: ShapeName
    phase: WorkerPhase
    started_at: Moment
    reason: str = ""
    leaves_by: Moment | None = None
    """When its machine is taken away, where that was announced, as for spot machines."""


class Stuck(Wire):
    """Why workers of a shape do not start."""

    shape: ShapeName
    cause: StuckCause
    workers: Annotated[int, Field(ge=0)]
    """How many wait because of it; 0 where none could even be made, as under a quota."""
    message: str
    """What the substrate says of one of them."""


class Node(Wire):
    """A machine that workers run on: a Node of Kubernetes."""

    name: str
    ready: bool
    created_at: Moment
    instance_type: str = ""
    instance_id: str = ""


class NodeClaim(Wire):
    """A machine that Karpenter has ordered; empty where it does not say yet."""

    name: str
    nodepool: str = ""
    instance_id: str = ""
    instance_type: str = ""
    lifecycle: Lifecycle | None = None
    zone: str = ""
    node_name: str = ""
    launched: bool
    billable_from: Moment
    """When it was launched, else when it was made: from then on it costs."""


class Price(Wire):
    """What a machine costs now, in US dollars per hour."""

    instance_type: str
    lifecycle: Lifecycle
    zone: str
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Applied(Wire):
    """The last desired state the edge has carried out."""

    generation: int
    fence: int
    applied_at: Moment
    """When the substrate had accepted the change (a process started, a PATCH acknowledged)."""


class Heartbeat(Wire):
    """A full state. A list that is None could not be read, or this substrate has no such thing; empty means none."""

    schema_name: ClassVar[str] = "heartbeat.v3"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every heartbeat of a cluster, over restarts too (milliseconds of the epoch)."""
    sent_at: Moment
    agent_version: str
    substrate: Literal["process", "kubernetes"]
    applied: Applied | None = None
    workers: tuple[Worker, ...] | None
    stuck: tuple[Stuck, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    node_claims: tuple[NodeClaim, ...] | None = None
    prices: tuple[Price, ...] | None = None
    """All prices known to the edge; None keeps the last ones until they are 90 s old."""
