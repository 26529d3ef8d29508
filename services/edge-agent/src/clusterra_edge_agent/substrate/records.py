"""Worker records on disk: enough to find each worker again, and to publish each of its events once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from clusterra_contracts.events import WorkerFact, WorkerKind
from clusterra_contracts.identity import Moment, ShapeName, WorkerName
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.substrate import state_files
from clusterra_edge_agent.substrate.port import WorkerEvent

End = Literal["stopped", "failed", "lost"]
"""`stopped`: removed as desired; `failed`: ended by itself; `lost`: removed by somebody else."""

_KINDS: dict[End, WorkerKind] = {"stopped": "worker.stopped", "failed": "worker.failed", "lost": "worker.lost"}


RECORD_CONFIG = ConfigDict(populate_by_name=True)
"""Where a field has an alias, the alias is its name in the stored files."""


@dataclass(frozen=True, slots=True, kw_only=True, config=RECORD_CONFIG)
class WorkerRecord:
    """A worker, from its creation until its end is published. A dataclass, because there may be thousands."""

    name: WorkerName
    shape: ShapeName
    started_at: Moment
    start_published: Annotated[bool, Field(alias="start_told")] = False
    removing: bool = False
    """Whether its end is desired: the worker then counts as stopped, not as failed."""
    end: End | None = None
    ended_at: Moment | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Unique among the workers of this moment; the name of its file."""
        return self.name

    @property
    def version(self) -> str:
        """Unique among all workers that ever have this name: a random name may recur, even a year later."""
        return str(int(self.started_at.timestamp() * 1000))

    def pending_events(self) -> Iterator[WorkerEvent]:
        """Yields the events that are not published yet, in order."""
        if not self.start_published:
            yield self._event("worker.started", self.started_at)
        if self.end is not None:
            yield self._event(_KINDS[self.end], self.ended_at or self.started_at)

    def _event(self, kind: WorkerKind, time: Moment) -> WorkerEvent:
        reason = "" if kind == "worker.started" else self.reason
        fact = WorkerFact(kind=kind, worker=self.name, shape=self.shape, reason=reason, started_at=self.started_at)
        return WorkerEvent(self.name, fact, version=self.version, time=time)


class Records[R: WorkerRecord]:
    """Stores one file per worker in a folder. All methods raise OSError when the folder cannot be used."""

    def __init__(self, folder: Path, model: type[R]) -> None:
        self._folder = folder
        self._model = model
        folder.mkdir(parents=True, exist_ok=True)

    def load(self) -> list[R]:
        """Returns all records. Raises state_files.StateUnreadable: a worker without a record could start twice."""
        found = (state_files.read(path, self._model) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def save(self, record: R) -> None:
        """Writes a record in place of the worker's previous one."""
        state_files.write(self._path(record.key), record)

    def delete(self, key: str) -> None:
        """Deletes the record of a worker."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
