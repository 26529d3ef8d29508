"""The record of a worker that is a process of this host."""

from clusterra_contracts.heartbeat import Worker, WorkerPhase
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.process.worker_process import ProcessIdentity
from clusterra_edge_agent.substrate.records import RECORD_CONFIG, WorkerRecord


@dataclass(frozen=True, slots=True, kw_only=True, config=RECORD_CONFIG)
class ProcessRecord(WorkerRecord):
    """The record of a worker process, written before the process runs its program."""

    port: int
    process: ProcessIdentity

    def phase(self, *, serving: bool) -> WorkerPhase:
        """Returns the worker's phase. `serving` is not stored, so it is passed."""
        if self.end is not None:
            return "failed" if self.end == "failed" else "terminating"
        if self.removing:
            return "terminating"
        return "running" if serving else "booting"

    def worker(self, *, serving: bool) -> Worker:
        """Returns the worker as heartbeats show it."""
        return Worker(
            name=self.name,
            shape=self.shape,
            phase=self.phase(serving=serving),
            started_at=self.started_at,
            reason=self.reason,
        )
