"""Spans of what a job went through in Slurm, added to the trace of its submit.

The proxy wrote that trace into the job's comment. A comment proves nothing, but a forged one only adds a span to a
trace. Slurm's times are whole seconds, and so are the ends of these spans.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from clusterra_contracts.events import JOB_ENDS
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime import tracing

from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.watch.job_facts import JobTransition

MAX_TRACES = 64
"""The number of jobs whose traces a snapshot names, the newest first: it bounds the size of a long queue's snapshot."""
_MAX_NODES = 16


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
        details: dict[str, str | int] = {"slurm.job.state": record.state, "clusterra.workers": len(record.hosts)}
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
