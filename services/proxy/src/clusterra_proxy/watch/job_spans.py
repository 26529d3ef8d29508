"""Spans of what a job went through in Slurm, added to the trace of its submit.

The proxy wrote that trace into the job's comment. A comment proves nothing, but a forged one only adds a span to a
trace. Slurm's times are whole seconds, and so are the ends of these spans.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice

from clusterra_contracts.events import JOB_ENDS
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime import tracing

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.watch.job_facts import JobTransition

MAX_TRACES = 64
"""The number of jobs whose traces a snapshot names, the newest first: it bounds the size of a long queue's snapshot."""
MAX_WAITING = 1000
"""The number of spans that wait for the registrations of their nodes. Further ones are recorded without."""
_MAX_NODES = 16


class JobSpans:
    """The spans of one cluster's jobs.

    Jobs and nodes are read at the same time, and a job may start right after its node has registered. So a span whose
    nodes are not all known waits until the nodes have been read after the job.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: deque[tuple[datetime, JobTransition, JobRecord]] = deque()

    def add(self, transition: JobTransition, record: JobRecord) -> None:
        """Record the span that ends with a transition, now or once the nodes of the job have been read."""
        if not record.parsed_comment.trace:
            return
        known = transition.kind != "job.running" or all(map(self._is_known, record.hosts[:_MAX_NODES]))
        if known or len(self._waiting) >= MAX_WAITING:
            self._record(transition, record)
        else:
            self._waiting.append((now(), transition, record))

    def record_waiting(self) -> None:
        """Record the spans whose jobs were read before the last read of the nodes began."""
        observed_at = self._cluster.nodes_observed_at
        while self._waiting and observed_at is not None and self._waiting[0][0] <= observed_at:
            _, transition, record = self._waiting.popleft()
            self._record(transition, record)

    def _is_known(self, name: str) -> bool:
        node = self._cluster.nodes.get(name)
        return node is not None and node.slurmd_start_time is not None

    def _record(self, transition: JobTransition, record: JobRecord) -> None:
        record_spans(self._cluster.ref, transition, record, self._cluster.nodes)


def record_spans(
    ref: ClusterRef, transition: JobTransition, record: JobRecord, nodes: Mapping[str, NodeRecord]
) -> None:
    """Record the span that ends with a transition: `job queued` at its start, `job running` at its end."""
    traceparent = record.parsed_comment.trace
    if not traceparent or record.submit_time is None:
        return
    attributes: dict[str, str | int] = {
        tracing.TENANT: ref.tenant,
        tracing.CLUSTER: ref.cluster,
        "clusterra.job.id": transition.job_id,
    }
    if transition.kind == "job.running":
        registered = [
            ("worker registered", node.slurmd_start_time, {"clusterra.worker": name})
            for name in record.hosts[:_MAX_NODES]
            if (node := nodes.get(name)) is not None
            and node.slurmd_start_time is not None
            and record.submit_time <= node.slurmd_start_time <= transition.time
        ]
        tracing.record(traceparent, "job queued", record.submit_time, transition.time, attributes, events=registered)
    elif transition.kind in JOB_ENDS and record.started_at is not None:
        details: dict[str, str | int] = {"slurm.job.state": record.state, "clusterra.workers": record.host_count}
        tracing.record(traceparent, "job running", record.started_at, transition.time, attributes | details)


def pending_traces(records: Iterable[JobRecord]) -> dict[str, str]:
    """Return the traces of the newest pending jobs, as far as they are recorded, by job id."""
    if not tracing.enabled():
        return {}
    # Reading a comment is the costly part, so only the newest jobs' are read. Ids grow with time, until Slurm starts
    # again at its lowest one.
    pending = sorted((each for each in records if each.state == "PENDING"), key=_job_id, reverse=True)
    traced = (each for each in pending if _is_recorded(each.parsed_comment.trace))
    return {each.id: each.parsed_comment.trace for each in islice(traced, MAX_TRACES)}


def _is_recorded(traceparent: str) -> bool:
    # `Comment` lets only valid ones through. OpenTelemetry's own parser takes 18 us for each.
    return bool(traceparent) and bool(int(traceparent[-2:], 16) & 1)


def _job_id(record: JobRecord) -> int:
    return record.job_id
