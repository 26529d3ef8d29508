"""The span of a decision: in a trace of its own, because a decision serves many jobs, linked with the jobs' traces."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime import tracing

from clusterra_scaler.planner.decide import Decision


@contextmanager
def decision_span(ref: ClusterRef, snapshot: QueueSnapshot, decision: Decision, began: datetime) -> Iterator[None]:
    """Enter the trace of a decision that changes the desired state, from the arrival of its input until the block ends.

    It links to the trace of each job that it serves, as far as the snapshot names them, and leaves in each a span that
    links back. A decision without a change has no span.
    """
    if not tracing.enabled() or not decision.changes:
        yield
        return
    served = {
        job_id: (snapshot.traces[job_id], change)
        for change in decision.changes
        for job_id in change.job_ids
        if job_id in snapshot.traces
    }
    attributes: dict[str, str | int] = {
        tracing.TENANT: ref.tenant,
        tracing.CLUSTER: ref.cluster,
        "clusterra.generation": decision.state.generation,
        "clusterra.fence": decision.state.fence,
        "clusterra.snapshot.generation": snapshot.generation,
        "clusterra.jobs": len({job_id for change in decision.changes for job_id in change.job_ids}),
    }
    links = tracing.links_to([traceparent for traceparent, _ in served.values()])
    with tracing.entry(None, "decide", attributes=attributes, links=links, start=began) as span:
        for change in decision.changes:
            details: dict[str, str | int] = {
                "clusterra.shape": change.shape,
                "clusterra.replicas.before": change.replicas_before,
                "clusterra.replicas.after": change.replicas_after,
                "clusterra.victims": len(change.victims),
            }
            span.add_event("shape changed", details)
        yield
        published = now()
        back = tracing.links_to([tracing.traceparent()])
        for job_id, (traceparent, change) in served.items():
            details = {
                tracing.TENANT: ref.tenant,
                tracing.CLUSTER: ref.cluster,
                "clusterra.job.id": job_id,
                "clusterra.shape": change.shape,
                "clusterra.replicas.after": change.replicas_after,
            }
            tracing.record(traceparent, "workers decided", began, published, details, links=back)
