"""What the agent knows of each worker: enough to find it again, and to tell each of its facts once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from clusterra_contracts.events import WorkerFact, WorkerKind
from clusterra_contracts.identity import Moment, ShapeName, WorkerName
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.substrate import state_files as state
from clusterra_edge_agent.substrate.port import News

End = Literal["stopped", "failed", "lost"]
"""`stopped`: as desired; `failed`: by itself; `lost`: somebody else removed it."""

_KINDS: dict[End, WorkerKind] = {"stopped": "worker.stopped", "failed": "worker.failed", "lost": "worker.lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker from the moment it exists until its end has been told. There may be thousands: it is no model."""

    name: WorkerName
    shape: ShapeName
    started_at: Moment
    start_told: bool = False
    removing: bool = False
    """Its end is wanted: it is stopped then, not failed."""
    end: End | None = None
    ended_at: Moment | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """What no other worker of now has; its file is called so."""
        return self.name

    @property
    def version(self) -> str:
        """What no other worker of this name has, ever. A name that is made at random may come again in another year."""
        return str(int(self.started_at.timestamp() * 1000))

    def news(self) -> Iterator[News]:
        """What has not been told yet, in order."""
        if not self.start_told:
            yield self._news("worker.started", self.started_at)
        if self.end is not None:
            yield self._news(_KINDS[self.end], self.ended_at or self.started_at)

    def _news(self, kind: WorkerKind, time: Moment) -> News:
        reason = "" if kind == "worker.started" else self.reason
        fact = WorkerFact(kind=kind, worker=self.name, shape=self.shape, reason=reason)
        return News(self.name, fact, version=self.version, time=time)


class Records[R: WorkerRecord]:
    """One file per worker in a folder. All raise OSError when the folder cannot be used."""

    def __init__(self, folder: Path, model: type[R]) -> None:
        self._folder = folder
        self._model = model
        folder.mkdir(parents=True, exist_ok=True)

    def load(self) -> list[R]:
        """All records. Raises state.StateUnreadable: a worker that cannot be known must not be started again."""
        found = (state.read(path, self._model) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def save(self, record: R) -> None:
        """Write a record, replacing the worker's last one."""
        state.write(self._path(record.key), record)

    def delete(self, key: str) -> None:
        """Forget a worker."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
