"""The metrics that all services share. A service declares its own metrics where it uses them."""

from prometheus_client import CONTENT_TYPE_LATEST, Counter, Gauge, Histogram, generate_latest

from clusterra_runtime.process_metrics import SUBPROCESSES

LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The same buckets for all latencies, so that histograms can be aggregated across services."""

HANDLED = Counter(
    "clusterra_messages_handled_total",
    "Messages taken from the bus, by outcome",
    ("family", "outcome"),
)
DEAD_LETTERS = Counter("clusterra_dead_letters_total", "Messages that cannot be handled", ("family",))
DEAD_LETTERS_LEFT_OUT = Counter(
    "clusterra_dead_letters_left_out_total",
    "Dead letters that are only counted, because their subject has too many",
    ("family",),
)
STREAM_USE = Gauge(
    "clusterra_stream_use",
    "How much of a bound a stream uses, from 0 to 1; `of` is bytes or messages",
    ("stream", "of"),
)
READY = Gauge("clusterra_ready", "1 while all conditions of readiness are met")
NATS_CONNECTED = Gauge("clusterra_nats_connected", "1 while there is a connection to NATS")
LEASES_HELD = Gauge("clusterra_leases_held", "Leases that this replica holds", ("service",))
CONSUMER_PENDING = Gauge(
    "clusterra_consumer_pending_messages",
    "Messages of a durable consumer that wait for their first delivery",
    ("consumer",),
)
CONSUMER_LAG_SECONDS = Gauge(
    "clusterra_consumer_lag_seconds",
    "How long messages of a durable consumer wait; 0 when none does",
    ("consumer",),
)
RECONNECTS = Counter("clusterra_nats_reconnects_total", "Renewals of the connection to NATS")
UNSERVED_PULLS = Counter(
    "clusterra_nats_unserved_pulls_total",
    "Pull requests without a consumer: it was deleted, or its stream has no leader",
    ("consumer",),
)
RPC_SECONDS = Histogram(
    "clusterra_rpc_seconds",
    "Time from the arrival of a request to its reply, by outcome: `ok` or the kind of error",
    ("family", "outcome"),
    buckets=LATENCY_BUCKETS_SECONDS,
)
SPANS = Counter("clusterra_spans_total", "Spans for the receiver of traces, by outcome of their export", ("outcome",))


def exposition() -> tuple[bytes, str]:
    """The metrics of this process and its subprocesses as the body of a scrape, and its content type."""
    return generate_latest(SUBPROCESSES), CONTENT_TYPE_LATEST


def family(subject: str) -> str:
    """The first token of a subject. It has few values, so it can be a label, unlike tenants and clusters."""
    return subject.partition(".")[0]
