"""What the agent knows of each worker process: enough to find it again, and to tell each of its facts once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from clusterra_contracts.events import WorkerFact, WorkerKind
from clusterra_contracts.heartbeat import Worker, WorkerPhase
from clusterra_contracts.identity import Moment, ShapeName, WorkerName
from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent import state
from clusterra_edge_agent.substrate import News
from clusterra_edge_agent.worker_process import ProcessIdentity


class WorkerRecord(BaseModel):
    """A worker from the moment its process exists until its end has been told."""

    model_config = ConfigDict(frozen=True)

    name: WorkerName
    shape: ShapeName
    port: int
    process: ProcessIdentity
    started_at: Moment
    start_told: bool = False
    removing: bool = False
    """Its end is wanted: it is stopped then, not failed."""
    end: Literal["stopped", "failed"] | None = None
    ended_at: Moment | None = None
    reason: str = ""

    def phase(self, *, serving: bool) -> WorkerPhase:
        """Its phase; `serving` is what a record cannot know."""
        if self.end is not None:
            return "failed" if self.end == "failed" else "terminating"
        if self.removing:
            return "terminating"
        return "running" if serving else "booting"

    def worker(self, *, serving: bool) -> Worker:
        """The worker as heartbeats show it."""
        return Worker(
            name=self.name,
            shape=self.shape,
            phase=self.phase(serving=serving),
            started_at=self.started_at,
            reason=self.reason,
        )

    def news(self) -> Iterator[News]:
        """What has not been told yet, in order."""
        if not self.start_told:
            yield self._news("worker.started", self.started_at)
        if self.end is not None:
            kind: WorkerKind = "worker.failed" if self.end == "failed" else "worker.stopped"
            yield self._news(kind, self.ended_at or self.started_at)

    def _news(self, kind: WorkerKind, time: Moment) -> News:
        reason = "" if kind == "worker.started" else self.reason
        fact = WorkerFact(kind=kind, worker=self.name, shape=self.shape, reason=reason)
        # A name is given once, but made at random: its start tells it from one of another year.
        return News(fact, version=str(int(self.started_at.timestamp() * 1000)), time=time)


class Records:
    """One file per worker in a folder. All raise OSError when the folder cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self) -> list[WorkerRecord]:
        """All records. Raises state.StateUnreadable: a worker that cannot be known must not be started again."""
        found = (state.read(path, WorkerRecord) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def save(self, record: WorkerRecord) -> None:
        """Write a record, replacing the worker's last one."""
        state.write(self._path(record.name), record)

    def delete(self, name: WorkerName) -> None:
        """Forget a worker."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: WorkerName) -> Path:
        return self._folder / f"{name}.json"
