"""What the agent knows of a worker that is a process of this host."""

from clusterra_contracts.heartbeat import Worker, WorkerPhase
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.process.worker_process import ProcessIdentity
from clusterra_edge_agent.substrate.records import WorkerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord(WorkerRecord):
    """It is written before the process runs its program."""

    port: int
    process: ProcessIdentity

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
