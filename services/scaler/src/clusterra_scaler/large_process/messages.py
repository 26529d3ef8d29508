"""What a scaler and its process for large clusters tell each other: one JSON object a line, over a socket pair."""

from typing import Annotated, Literal

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.process_metrics import Family
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

LINE_BYTES = 16 * 1024 * 1024
"""Maximum length of a line. The longest ones are metrics, with some 20 samples a cluster."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class Run(_Message):
    """To the process: decide for a cluster under a lease, until `Stop`."""

    do: Literal["run"] = "run"
    ref: ClusterRef
    shard: int
    fence: int


class Stop(_Message):
    """To the process: decide for a cluster no longer."""

    do: Literal["stop"] = "stop"
    ref: ClusterRef


class Changed(_Message):
    """To the process: a snapshot of a cluster is stored in the JOB stream. The process reads the last one there."""

    do: Literal["changed"] = "changed"
    ref: ClusterRef


class Held(_Message):
    """To the process, once a second: the leases that are held now. It acts under no other lease."""

    do: Literal["held"] = "held"
    fences: dict[int, int]
    """The fence of each shard."""


class Ended(_Message):
    """From the process: it no longer decides for a cluster."""

    told: Literal["ended"] = "ended"
    ref: ClusterRef
    fenced_off_by: int | None = None
    """The fence of a later lease that has written the record, if that is why."""
    reason: str = ""


class Metrics(_Message):
    """From the process, every few seconds: its metrics, and that its event loop runs."""

    told: Literal["metrics"] = "metrics"
    families: tuple[Family, ...]


type Command = Annotated[Run | Stop | Changed | Held, Field(discriminator="do")]
type Report = Annotated[Ended | Metrics, Field(discriminator="told")]

COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
REPORT: TypeAdapter[Report] = TypeAdapter(Report)


def line(message: _Message) -> bytes:
    """A message as a line."""
    return message.model_dump_json().encode() + b"\n"
