"""Streams, consumers and buckets as data. Services never create them.

`clusterra-admin topology apply` creates and updates them on a server.
"""

from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.bus.subjects import JOB_PARTITIONS, job_partition_filter

HOUR = 3600.0
DAY = 24 * HOUR
DEDUPLICATION_SECONDS = 600.0
"""Longer than the restart of a service, after which messages may be published again with the same id."""


@dataclass(frozen=True)
class Stream:
    """A JetStream stream. Ages and windows are in seconds; an age of 0 keeps messages forever."""

    name: str
    subjects: tuple[str, ...]
    description: str
    max_age_seconds: float = 0.0
    max_messages_per_subject: int = -1
    storage: Literal["file", "memory"] = "file"
    deduplication_seconds: float = DEDUPLICATION_SECONDS
    transform: tuple[str, str] | None = None
    """Messages on subjects that match the first pattern are stored under the second."""
    max_bytes: int = -1


@dataclass(frozen=True)
class Consumer:
    """A durable pull consumer with explicit acknowledgement. Times are in seconds."""

    stream: str
    name: str
    filter_subject: str
    ack_wait_seconds: float = 30.0
    max_ack_pending: int = 1000
    max_deliver: int = 10
    deliver: Literal["all", "last_per_subject"] = "all"


@dataclass(frozen=True)
class Bucket:
    """A key-value bucket with one value per key."""

    name: str
    description: str
    storage: Literal["file", "memory"] = "file"


JOB = Stream(
    name="JOB",
    subjects=("job.pending.*.*",),
    description="The last queue snapshot of each cluster, stored by partition",
    max_messages_per_subject=1,
    transform=(
        "job.pending.*.*",
        f"job.partition.{{{{partition({JOB_PARTITIONS},1,2)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}",
    ),
)
JOB_PART = Stream(
    name="JOB_PART",
    subjects=("job.part.*.*.*.*",),
    description="The parts of the last two queue snapshots of each large cluster, read by direct get",
    # A snapshot is valid for a minute at most. What a queue that has become smaller leaves behind goes.
    max_age_seconds=600.0,
    max_messages_per_subject=1,
    deduplication_seconds=120.0,
)
SCALE = Stream(
    name="SCALE",
    subjects=("scale.desired.*.*",),
    description="The last desired state of each cluster, read by direct get",
    max_messages_per_subject=1,
)
HB = Stream(
    name="HB",
    subjects=("heartbeat.*.*",),
    description="The last heartbeat of each cluster",
    max_age_seconds=300.0,
    max_messages_per_subject=1,
    # Not in memory: a single server would lose the stream at a restart.
    deduplication_seconds=120.0,
)
EVENT = Stream(
    name="EVENT",
    subjects=("event.>",),
    description="Facts, for the archive, the live feeds and integrations",
    max_age_seconds=72 * HOUR,
)
DLQ = Stream(
    name="DLQ",
    subjects=("dlq.>",),
    description="Messages that nobody can handle, for operators",
    max_age_seconds=14 * DAY,
)
ADVISORY = Stream(
    name="ADVISORY",
    subjects=(
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>",
        "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>",
    ),
    description="What the server says of messages it gave up, for operators",
    max_age_seconds=7 * DAY,
)

STREAMS: tuple[Stream, ...] = (JOB, JOB_PART, SCALE, HB, EVENT, DLQ, ADVISORY)


def scaler_consumer(partition: int) -> str:
    """The name of the durable consumer of one partition of the JOB stream."""
    return f"scaler-{partition}"


EVENTS_ARCHIVE = "events-archive"

CONSUMERS: tuple[Consumer, ...] = (
    *(
        Consumer("JOB", scaler_consumer(partition), job_partition_filter(partition), deliver="last_per_subject")
        for partition in range(JOB_PARTITIONS)
    ),
    # The archive must receive every event again after its store was away for hours; only garbage is given up.
    Consumer("EVENT", EVENTS_ARCHIVE, "event.>", ack_wait_seconds=10.0, max_deliver=10_000),
)

REGISTRY = Bucket("registry", "Cluster bindings, projected by the gateway")
LEASES = Bucket("leases", "Who works on which partition; entries live as long as they are renewed")
VERSIONS = Bucket("versions", "The versions of the running services; entries live as long as they are renewed")

CONDITIONS = Bucket("conditions", "Why clusters are degraded; a healthy cluster has no entry or an empty one")

BUCKETS: tuple[Bucket, ...] = (REGISTRY, LEASES, VERSIONS, CONDITIONS)
