"""The facts of events, and the answer about the fleet, as the gateway sends them."""

from datetime import datetime
from typing import Annotated

from clusterra.model_base import Model
from clusterra.operations.api import JOB_ID
from pydantic import Field, StringConstraints, ValidationError

MAX_TEXT = 200
"""Longer names and reasons are cut off."""


class JobFact(Model):
    """The fact of an event `job.…` of Slurm's own."""

    job_id: Annotated[str, StringConstraints(pattern=f"^{JOB_ID.pattern}$")]
    name: str
    user: str
    state: str
    reason: str = ""
    nodes: tuple[str, ...] = ()
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: dict[str, int] = Field(default_factory=dict)
    time_limit_seconds: float | None = None


class ActionFact(Model):
    """The fact of an event `action.…` or `job.staged`: something about a job, but not its new state."""

    job_id: Annotated[str, StringConstraints(pattern=f"^{JOB_ID.pattern}$")]


class WorkerFact(Model):
    """The fact of an event `worker.…`."""

    worker: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    shape: Annotated[str, StringConstraints(max_length=MAX_TEXT)]


class NodeSize(Model):
    """What jobs can be allocated on a node."""

    cpus: int


class NodeFact(Model):
    """The fact of an event `node.…` of Slurm's own."""

    node: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    size: NodeSize | None = None


class ShapeChange(Model):
    """What a decision changes of one shape."""

    shape: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    replicas_after: int


class ScaleFact(Model):
    """The fact of an event `scale.decided`."""

    changes: tuple[ShapeChange, ...]


class ShapeCount(Model):
    """How many workers of a shape there should be."""

    shape: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    desired: int | None = None


class Fleet(Model):
    """Of the answer about a fleet, the present."""

    now: tuple[ShapeCount, ...]


def fact_of[M: Model](model: type[M], data: object) -> M | None:
    """The fact of an event; None for one that this release cannot read."""
    try:
        return model.model_validate(data)
    except ValidationError:
        return None
