"""Feeds the run-time model from queue snapshots: which jobs began, which ended, and which were stopped and requeued."""

from clusterra_contracts.demand import DEFAULT_MEMORY_MIB_PER_CPU
from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import QueueSnapshot, RunningJob

from clusterra_scaler.planner.estimates.remaining_time import Remaining
from clusterra_scaler.planner.estimates.run_time_model import RunTimeCounts, RunTimeModel
from clusterra_scaler.planner.estimates.run_times import Traits
from clusterra_scaler.planner.estimates.settings import LearningSettings
from clusterra_scaler.planner.requests.demand import Demand

MIB_PER_GIB = 1024


class RunHistory:
    """The run times of one cluster's jobs. The answers depend on `counts` alone, which outlive a scaler."""

    def __init__(self, counts: RunTimeCounts | None = None) -> None:
        self._model = RunTimeModel(LearningSettings(), counts)
        self._generation = 0
        self._of_pending: dict[Traits, Remaining] = {}
        self.unsaved = False
        """Whether `counts` have changed since they were last stored. The storing part resets it."""

    @property
    def counts(self) -> RunTimeCounts:
        """What must be stored."""
        return self._model.counts

    def observe(self, snapshot: QueueSnapshot) -> None:
        """Learn from a snapshot. An older one, or one whose lists could not be read, is ignored.

        A job that neither runs nor waits any more has ended. How it ended does not matter: its worker was needed for
        that long.
        """
        if snapshot.running is None or snapshot.pending is None or snapshot.generation <= self._generation:
            return
        first = self._generation == 0
        self._generation = snapshot.generation
        now = snapshot.taken_at.timestamp()
        running = {job.job_id: job for job in snapshot.running}
        waiting = {job_id for group in snapshot.pending for job_id in group.job_ids}
        known = self._model.running
        gone, begun = known - running.keys(), running.keys() - known
        for job_id in sorted(gone):
            # The first snapshot after a takeover does not show when a job ended.
            if first or job_id in waiting:
                self._model.abandon(job_id)
            else:
                self._model.end(job_id, now)
        for job_id in sorted(begun):
            self._model.begin(job_id, traits_of_running(running[job_id]), running[job_id].started_at.timestamp())
        counted_at = self._model.counted_at
        self._model.advance(now)
        if gone or begun or self._model.counted_at != counted_at:
            self._model.clear_curves()
            self._of_pending.clear()
            self.unsaved = True

    def of_pending(self, demand: Demand) -> Remaining:
        """The run time of a pending job."""
        traits = traits_of_demand(demand)
        if traits not in self._of_pending:
            self._of_pending[traits] = self._model.remaining(demand.job_ids[0], traits, 0.0)
        return self._of_pending[traits]

    def of_running(self, job: RunningJob, now: float) -> Remaining:
        """The remaining run time of a job at `now`, in seconds of the epoch."""
        return self._model.remaining(job.job_id, traits_of_running(job), max(0.0, now - job.started_at.timestamp()))

    def peek(self, job_id: JobId, traits: Traits, age: float) -> Remaining:
        """The remaining run time of a job of this age; nothing is kept (see RunTimeReader)."""
        planned = self._of_pending.get(traits) if age == 0.0 else None
        return self._model.peek(job_id, traits, age) if planned is None else planned

    def ends_within(self, job: RunningJob, now: float, seconds: float) -> float:
        """The chance that a job has ended `seconds` after `now`."""
        age = max(0.0, now - job.started_at.timestamp())
        return self._model.ends_within(job.job_id, traits_of_running(job), age, seconds)


def traits_of_demand(demand: Demand) -> Traits:
    """The traits that a pending job's run time is estimated by; of a heterogeneous job its first component's."""
    need = demand.parts[0].need
    return Traits(str(demand.uid), demand.limit_seconds, need.cpus, need.memory_mib / MIB_PER_GIB)


class RunTimeReader:
    """The answers of a run history now. Asking keeps nothing and so changes no plan, also none that is being made."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history

    def of_pending(self, demand: Demand) -> Remaining:
        """As of the history."""
        return self._history.peek(demand.job_ids[0], traits_of_demand(demand), 0.0)

    def of_running(self, job: RunningJob, now: float) -> Remaining:
        """As of the history."""
        return self._history.peek(job.job_id, traits_of_running(job), max(0.0, now - job.started_at.timestamp()))


def traits_of_running(job: RunningJob) -> Traits:
    """The traits of a running job, as if it used the same on each of its nodes."""
    limit = (job.ends_by - job.started_at).total_seconds() if job.ends_by is not None else None
    nodes = max(len(job.nodes), 1)
    memory_mib = job.memory_mib if job.memory_mib is not None else job.cpus * DEFAULT_MEMORY_MIB_PER_CPU
    return Traits(str(job.uid), limit, -(-job.cpus // nodes), memory_mib / nodes / MIB_PER_GIB)
