"""Metrics of every service; its own Counters and Histograms a service declares where it uses them."""

from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest

LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""One scale for all latencies, so that they can be added up across services."""

HANDLED = Counter(
    "clusterra_messages_handled_total",
    "Messages taken from the bus, by what became of them",
    ("family", "outcome"),
)
DEAD_LETTERS = Counter("clusterra_dead_letters_total", "Messages that nobody can handle", ("family",))
RECONNECTS = Counter("clusterra_nats_reconnects_total", "How often the connection to NATS was renewed")
UNSERVED_PULLS = Counter(
    "clusterra_nats_unserved_pulls_total",
    "Pull requests that no consumer answered: it was deleted, or its stream has no leader",
    ("consumer",),
)
RPC_SECONDS = Histogram(
    "clusterra_rpc_seconds",
    "From a request's arrival to its reply, by outcome: `ok` or the kind of error",
    ("family", "outcome"),
    buckets=LATENCY_BUCKETS_SECONDS,
)


def exposition() -> tuple[bytes, str]:
    """All metrics of this process as a scrape's body and its content type."""
    return generate_latest(), CONTENT_TYPE_LATEST


def family(subject: str) -> str:
    """A subject's first token: few enough values for a label, unlike tenants and clusters."""
    return subject.partition(".")[0]
