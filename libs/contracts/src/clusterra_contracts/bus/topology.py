"""Streams, consumers and buckets as data. Services never create them.

`clusterra-admin topology apply` creates and updates them on a server. Every stream and bucket is bounded in bytes, in
messages, and in messages on one subject. The bounds in bytes and messages are those of scale 1, whose sum fits into a
server with 4 GiB; `topology apply --scale N` multiplies them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.bus.subjects import SHARD_COUNT, job_shard_filter

HOUR = 3600.0
DAY = 24 * HOUR
KIB = 1024
MIB = 1024 * KIB
MAX_PAYLOAD_BYTES = 8 * MIB
"""The servers' `max_payload`. Only a queue snapshot of a large cluster is larger than `MAX_MESSAGE_BYTES`."""
MAX_MESSAGE_BYTES = MIB
"""The largest message of any other kind, and the largest one that an edge-agent may send, by its login."""
CLUSTERS = 5000
"""How many clusters the streams and buckets of scale 1 have room for, if their states are small."""
DEDUPLICATION_SECONDS = 600.0
"""Longer than the restart of a service, after which messages may be published again with the same id."""


class Unbounded(ValueError):
    """A stream or a bucket is declared without a bound."""


@dataclass(frozen=True)
class Bounds:
    """What a stream may hold at scale 1, and what happens to a message beyond that.

    With `discard="old"` the oldest messages of the stream go, whoever sent them. With `discard="new"` the server
    refuses the message, and the sender tries again; a message that replaces the last one of its subject is refused
    only if it is larger. `refuse_per_subject` refuses messages beyond `messages_per_subject`, too. Raises Unbounded.
    """

    bytes: int
    messages: int
    messages_per_subject: int
    discard: Literal["old", "new"]
    refuse_per_subject: bool = False
    message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        """Check that there is a bound of each kind."""
        limits = (self.bytes, self.messages, self.messages_per_subject, self.message_bytes)
        if min(limits) < 1 or self.message_bytes > min(self.bytes, MAX_PAYLOAD_BYTES):
            raise Unbounded(f"{self}: each bound must be positive, and a message must fit")
        if self.refuse_per_subject and self.discard != "new":
            raise Unbounded(f"{self}: only a stream that discards new messages can refuse them by subject")


@dataclass(frozen=True)
class Stream:
    """A JetStream stream. Ages and windows are in seconds; an age of 0 keeps messages forever."""

    name: str
    subjects: tuple[str, ...]
    description: str
    bounds: Bounds
    max_age_seconds: float = 0.0
    storage: Literal["file", "memory"] = "file"
    deduplication_seconds: float = DEDUPLICATION_SECONDS
    transform: tuple[str, str] | None = None
    """Messages on subjects that match the first pattern are stored under the second."""
    numbered_by_time: bool = False
    """Its first sequence is the number of microseconds from 1970 to its creation. So a stream that was lost and made
    again has no sequence of the one before: a position of that one is before all of its messages."""


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
    """A key-value bucket with one value per key. Its stream is bounded in bytes and keys, and refuses what is more."""

    name: str
    description: str
    bytes: int
    keys: int
    storage: Literal["file", "memory"] = "file"

    @property
    def bounds(self) -> Bounds:
        """The bounds of the bucket's stream. Raises Unbounded."""
        return Bounds(self.bytes, self.keys, 1, "new", message_bytes=min(self.bytes, MAX_MESSAGE_BYTES))


def last_values(total: int, messages: int = CLUSTERS, message_bytes: int = MAX_MESSAGE_BYTES) -> Bounds:
    """The bounds of a stream with the last message of each subject. A full one keeps what it has: the value of a quiet
    cluster must not go because another one is large.
    """
    return Bounds(total, messages, 1, "new", message_bytes=message_bytes)


JOB = Stream(
    name="JOB",
    subjects=("job.pending.*.*",),
    description="The last queue snapshot of each cluster, stored by shard",
    bounds=last_values(512 * MIB, message_bytes=MAX_PAYLOAD_BYTES),
    transform=(
        "job.pending.*.*",
        f"job.partition.{{{{partition({SHARD_COUNT},1,2)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}",
    ),
)
SCALE = Stream(
    name="SCALE",
    subjects=("scale.desired.*.*",),
    description="The last desired state of each cluster, read by direct get",
    bounds=last_values(128 * MIB),
)
HB = Stream(
    name="HB",
    subjects=("heartbeat.*.*",),
    description="The last heartbeat of each cluster",
    max_age_seconds=300.0,
    bounds=last_values(256 * MIB, message_bytes=512 * KIB),
    # Not in memory: a single server would lose the stream at a restart.
    # The server compares ids across all clusters, and an agent may name those of another. A repeated heartbeat is
    # harmless.
    deduplication_seconds=0.1,
)
EVENT = Stream(
    name="EVENT",
    subjects=("event.>",),
    description="Facts, for the archive, the live feeds and integrations",
    # One kind of events of one cluster discards its own oldest before it can fill the stream.
    bounds=Bounds(1536 * MIB, 3_000_000, 100_000, "old"),
    max_age_seconds=72 * HOUR,
    # Clients and the archive keep positions for longer than the stream may live.
    numbered_by_time=True,
)
EDGE_EVENT = Stream(
    name="EDGE_EVENT",
    subjects=("edge-event.*.*.*.*",),
    description="Facts that edge-agents tell, before the events service has checked them",
    # A rate limit by cluster and kind: 2,000 in ten minutes. Beyond it the agent tries again.
    bounds=Bounds(256 * MIB, 500_000, 2000, "new", refuse_per_subject=True, message_bytes=4 * KIB),
    max_age_seconds=600.0,
    # The server compares ids across all clusters, and an agent may forge those of another: they only count for the
    # repetition of a request. EVENT has a window, and ids that were checked.
    deduplication_seconds=0.1,
)
DLQ = Stream(
    name="DLQ",
    subjects=("dlq.>",),
    description="Messages that nobody can handle, for operators",
    bounds=Bounds(128 * MIB, 100_000, 32, "old", message_bytes=128 * KIB),
    max_age_seconds=14 * DAY,
)
ADVISORY = Stream(
    name="ADVISORY",
    subjects=(
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>",
        "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>",
    ),
    description="What the server says of messages it gave up, for operators",
    bounds=Bounds(32 * MIB, 50_000, 5000, "old", message_bytes=32 * KIB),
    max_age_seconds=7 * DAY,
)

STREAMS: tuple[Stream, ...] = (JOB, SCALE, HB, EVENT, EDGE_EVENT, DLQ, ADVISORY)


def scaler_consumer(shard: int) -> str:
    """The name of the durable consumer of one shard of the JOB stream."""
    return f"scaler-{shard}"


EVENTS_ARCHIVE = "events-archive"
EVENTS_EDGE = "events-edge"
EVENTS_LEDGER = "events-ledger"

CONSUMERS: tuple[Consumer, ...] = (
    *(
        Consumer("JOB", scaler_consumer(shard), job_shard_filter(shard), deliver="last_per_subject")
        for shard in range(SHARD_COUNT)
    ),
    # The archive must receive every event again after its store was away for hours; only garbage is given up.
    Consumer("EVENT", EVENTS_ARCHIVE, "event.>", ack_wait_seconds=10.0, max_deliver=10_000),
    # It may lag behind the archive, and the other way round.
    Consumer("EVENT", EVENTS_LEDGER, "event.>", ack_wait_seconds=10.0, max_deliver=10_000),
    Consumer("EDGE_EVENT", EVENTS_EDGE, "edge-event.>", ack_wait_seconds=30.0, max_deliver=10_000),
)

REGISTRY = Bucket("registry", "Cluster bindings, projected by the gateway", 256 * MIB, CLUSTERS)
LEASES = Bucket("leases", "Who works on which shard; entries live as long as they are renewed", MIB, 1000)
VERSIONS = Bucket(
    "versions", "The versions of the running services; entries live as long as they are renewed", 16 * MIB, CLUSTERS
)
CONDITIONS = Bucket(
    "conditions", "Why clusters are degraded; a healthy cluster has no entry or an empty one", 32 * MIB, CLUSTERS
)

BUCKETS: tuple[Bucket, ...] = (REGISTRY, LEASES, VERSIONS, CONDITIONS)

BOUNDS: Mapping[str, Bounds] = {stream.name: stream.bounds for stream in STREAMS} | {
    f"KV_{bucket.name}": bucket.bounds for bucket in BUCKETS
}
"""The bounds of each stream of the server, those of buckets included."""


def storage_bytes(scale: int = 1) -> int:
    """The bytes that every server with a replica of all streams must have for them."""
    return scale * sum(bounds.bytes for bounds in BOUNDS.values())
