"""Metrics of one cluster, exported by the replica that decides for it, and by no other."""

from contextlib import suppress
from datetime import datetime

from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Counter, Gauge, Histogram

from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.observed.observation import Observation

_LABELS = ("tenant", "cluster")
MAX_UNAPPLIED = 64
"""The number of decisions that are remembered until the edge has applied them."""

SNAPSHOT_AT = Gauge(
    "clusterra_cluster_snapshot_timestamp_seconds", "When Slurm was read for the last queue snapshot", _LABELS
)
HEARTBEAT_AT = Gauge(
    "clusterra_cluster_heartbeat_timestamp_seconds", "When the last heartbeat of the edge arrived", _LABELS
)
DESIRED = Gauge("clusterra_cluster_desired_generation", "Generation of the desired state", _LABELS)
APPLIED = Gauge("clusterra_cluster_applied_generation", "Generation that the edge has applied", _LABELS)
PENDING = Gauge("clusterra_cluster_pending_jobs", "Pending jobs that could start at the same time", _LABELS)
WORKERS = Gauge("clusterra_cluster_workers", "Workers by phase, as the edge reports them", (*_LABELS, "phase"))
BREAKERS = Gauge("clusterra_cluster_open_breakers", "Shapes that are not bought because they failed", _LABELS)
UNREADABLE = Gauge("clusterra_cluster_unreadable_lists", "Lists of the last snapshot that could not be read", _LABELS)
STALE = Gauge(
    "clusterra_cluster_snapshot_stale", "1 while the last snapshot is too old to decide anything from it", _LABELS
)
FAILURES = Counter(
    "clusterra_scaler_control_loop_failures_total",
    "How often the control loop of a cluster failed and was started again: `store`, `overdue` or `error`",
    (*_LABELS, "reason"),
)
FAILURE_REASONS = ("store", "overdue", "error")
APPLIED_SECONDS = Histogram(
    "clusterra_scale_up_seconds",
    "From the read of the queue that asks for more workers until the edge reports that it has started them",
    buckets=LATENCY_BUCKETS_SECONDS,
)
_PHASES = ("booting", "running", "terminating", "failed")


class ClusterMetrics:
    """The metrics of one cluster. `remove` them when another replica decides for it."""

    def __init__(self, ref: ClusterRef) -> None:
        self._labels = (ref.tenant, ref.cluster)
        self._unapplied: dict[int, datetime] = {}
        """By generation of a desired state with more workers, when the queue was read that it was decided from."""

    def on_snapshot(self, snapshot: QueueSnapshot) -> None:
        """Export the queue."""
        SNAPSHOT_AT.labels(*self._labels).set(snapshot.taken_at.timestamp())
        unreadable = sum(each is None for each in (snapshot.pending, snapshot.running, snapshot.nodes))
        UNREADABLE.labels(*self._labels).set(unreadable)
        if snapshot.pending is not None:
            PENDING.labels(*self._labels).set(sum(jobs.count for jobs in snapshot.pending))

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Export what the edge reports."""
        HEARTBEAT_AT.labels(*self._labels).set(now().timestamp())
        if heartbeat.workers is not None:
            for phase in _PHASES:
                count = sum(worker.phase == phase for worker in heartbeat.workers)
                WORKERS.labels(*self._labels, phase).set(count)
        if heartbeat.applied is not None:
            APPLIED.labels(*self._labels).set(heartbeat.applied.generation)
            for generation in [each for each in self._unapplied if each <= heartbeat.applied.generation]:
                APPLIED_SECONDS.observe((now() - self._unapplied.pop(generation)).total_seconds())

    def on_observation(self, observation: Observation) -> None:
        """Export whether anything can be decided from an observation."""
        STALE.labels(*self._labels).set(observation.snapshot_is_stale)

    def on_decision(self, decision: Decision, snapshot: QueueSnapshot) -> None:
        """Export a decision that is recorded."""
        DESIRED.labels(*self._labels).set(decision.state.generation)
        BREAKERS.labels(*self._labels).set(sum(breaker.tripped for breaker in decision.state.breakers))
        if any(change.replicas_after > change.replicas_before for change in decision.changes):
            self._unapplied[decision.state.generation] = snapshot.taken_at
            while len(self._unapplied) > MAX_UNAPPLIED:
                del self._unapplied[next(iter(self._unapplied))]

    def remove(self) -> None:
        """Stop exporting the metrics of this cluster."""
        # Not `remove_by_labels`, which walks through the series of all clusters.
        for gauge in (SNAPSHOT_AT, HEARTBEAT_AT, DESIRED, APPLIED, PENDING, BREAKERS, UNREADABLE, STALE):
            with suppress(KeyError):
                gauge.remove(*self._labels)
        for phase in _PHASES:
            with suppress(KeyError):
                WORKERS.remove(*self._labels, phase)


def forget_failures(ref: ClusterRef) -> None:
    """Export no failures of a cluster any more: it is gone, or another replica decides for it."""
    for reason in FAILURE_REASONS:
        with suppress(KeyError):
            FAILURES.remove(ref.tenant, ref.cluster, reason)
