"""`heartbeat`: what an edge has, told every 5 s and on every change."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clusterra_contracts.identity import Moment, ShapeName, Wire, WorkerName

WorkerPhase = Literal["booting", "running", "terminating", "failed"]
"""`booting`: started, not known to serve yet; `running`: its slurmd serves; `failed`: ended by itself."""

HEARTBEAT_SECONDS = 5.0


class Worker(Wire):
    """A worker as its substrate sees it."""

    name: WorkerName
    shape: ShapeName
    phase: WorkerPhase
    started_at: Moment
    reason: str = ""


class Applied(Wire):
    """The last desired state the edge has carried out."""

    generation: int
    fence: int
    applied_at: Moment
    """When the substrate had accepted the change (a process started, a PATCH acknowledged)."""


class Heartbeat(Wire):
    """A full state. `workers=None` means they could not be listed; empty means there is none."""

    schema_name: ClassVar[str] = "heartbeat.v1"

    generation: Annotated[int, Field(ge=1)]
    """Rises with every heartbeat of a cluster, over restarts too (milliseconds of the epoch)."""
    sent_at: Moment
    agent_version: str
    substrate: Literal["process", "kubernetes"]
    applied: Applied | None = None
    workers: tuple[Worker, ...] | None
