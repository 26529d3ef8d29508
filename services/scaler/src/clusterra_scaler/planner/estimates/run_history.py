"""What the snapshots teach of run times: which jobs began, which ended, and which were stopped and wait again."""

from clusterra_contracts.queue import QueueSnapshot, RunningJob

from clusterra_scaler.planner.estimates.remaining_time import Remaining
from clusterra_scaler.planner.estimates.run_time_model import Counts, Learned
from clusterra_scaler.planner.estimates.run_times import Traits
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.requests.demand import DEFAULT_MEMORY_MIB_PER_CPU, Demand

MIB_PER_GIB = 1024


class RunHistory:
    """Of one cluster. What it has learned outlives a scaler as `counts`, which is all that its answers depend on."""

    def __init__(self, counts: Counts | None = None) -> None:
        self._learned = Learned(Settings(), counts)
        self._generation = 0
        self._of_pending: dict[Traits, Remaining] = {}
        self.changed = False
        """Something was learned that nobody has kept."""

    @property
    def counts(self) -> Counts:
        """What to keep."""
        return self._learned.counts

    def see(self, snapshot: QueueSnapshot) -> None:
        """Learn from a snapshot; an older one, or one whose lists could not be read, teaches nothing.

        A job that runs no more and does not wait has ended: how does not matter, its worker was needed for so long.
        """
        if snapshot.running is None or snapshot.pending is None or snapshot.generation <= self._generation:
            return
        first = self._generation == 0
        self._generation = snapshot.generation
        now = snapshot.taken_at.timestamp()
        running = {job.job_id: job for job in snapshot.running}
        waiting = {job_id for group in snapshot.pending for job_id in group.job_ids}
        known = self._learned.running
        gone, begun = known - running.keys(), running.keys() - known
        for job_id in sorted(gone):
            # What ended while nobody looked ended at a time that nobody knows.
            if first or job_id in waiting:
                self._learned.abandon(job_id)
            else:
                self._learned.end(job_id, now)
        for job_id in sorted(begun):
            self._learned.begin(job_id, traits_of_running(running[job_id]), running[job_id].started_at.timestamp())
        counted_at = self._learned.counted_at
        self._learned.advance(now)
        if gone or begun or self._learned.counted_at != counted_at:
            self._learned.ask_anew()
            self._of_pending.clear()
            self.changed = True

    def of_pending(self, demand: Demand) -> Remaining:
        """How long a job will run."""
        traits = traits_of_demand(demand)
        if traits not in self._of_pending:
            self._of_pending[traits] = self._learned.remaining(demand.job_ids[0], traits, 0.0)
        return self._of_pending[traits]

    def of_running(self, job: RunningJob, now: float) -> Remaining:
        """How long it still runs at a moment, in seconds of the epoch."""
        return self._learned.remaining(job.job_id, traits_of_running(job), max(0.0, now - job.started_at.timestamp()))

    def ends_within(self, job: RunningJob, now: float, seconds: float) -> float:
        """The chance that it has ended so many seconds after a moment."""
        age = max(0.0, now - job.started_at.timestamp())
        return self._learned.ends_within(job.job_id, traits_of_running(job), age, seconds)


def traits_of_demand(demand: Demand) -> Traits:
    """What the run time of a job is expected by; of several parts the first counts."""
    need = demand.parts[0].need
    return Traits(str(demand.uid), demand.limit_seconds, need.cpus, need.memory_mib / MIB_PER_GIB)


def traits_of_running(job: RunningJob) -> Traits:
    """The same of a job that runs, as if it had the same on each of its nodes."""
    limit = (job.ends_by - job.started_at).total_seconds() if job.ends_by is not None else None
    nodes = max(len(job.nodes), 1)
    memory_mib = job.memory_mib if job.memory_mib is not None else job.cpus * DEFAULT_MEMORY_MIB_PER_CPU
    return Traits(str(job.uid), limit, -(-job.cpus // nodes), memory_mib / nodes / MIB_PER_GIB)
