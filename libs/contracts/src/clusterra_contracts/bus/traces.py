"""What streams and buckets hold of one cluster, as data: its deletion purges these subjects and nothing else."""

from collections.abc import Mapping

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import CONDITIONS, DLQ, EDGE_EVENT, EVENT, HB, JOB, REGISTRY, SCALE
from clusterra_contracts.identity import ClusterRef

_BURIED = ("job.pending", "scale.desired", "heartbeat", "history")
"""The families whose subjects end with the cluster."""
_BURIED_BELOW = ("event", "edge-event", "slurm", "edge", "scaler", "ledger", "forget")
"""The families whose subjects go on after the cluster."""
_BUCKETS = (REGISTRY, CONDITIONS)

_STREAMS = (JOB, SCALE, HB, EVENT, EDGE_EVENT, DLQ)

PURGED = (*(stream.name for stream in _STREAMS), *(f"KV_{bucket.name}" for bucket in _BUCKETS))
"""The streams that hold something of a cluster."""


def of_cluster(ref: ClusterRef) -> Mapping[str, tuple[str, ...]]:
    """Stream -> the subjects under which it may hold messages of this cluster. None of them fits another cluster's."""
    cluster = f"{ref.tenant}.{ref.cluster}"
    keys = {bucket.name: f"$KV.{bucket.name}.{ref.key}" for bucket in _BUCKETS}
    buried = (
        *(f"{family}.{cluster}" for family in _BURIED),
        *(f"{family}.{cluster}.>" for family in _BURIED_BELOW),
        subjects.job_sharded(ref),
        *keys.values(),
    )
    return {
        JOB.name: (subjects.job_sharded(ref),),
        SCALE.name: (subjects.scale_desired(ref),),
        HB.name: (subjects.heartbeat(ref),),
        EVENT.name: (f"event.{cluster}.>",),
        EDGE_EVENT.name: (f"edge-event.{cluster}.>",),
        DLQ.name: tuple(subjects.dead_letter(each) for each in buried),
        **{f"KV_{name}": (key,) for name, key in keys.items()},
    }
