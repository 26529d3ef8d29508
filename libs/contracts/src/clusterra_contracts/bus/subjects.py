"""The subjects of the bus, spelled out nowhere else. Builders take references, parsers return them."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from clusterra_contracts.identity import ClusterRef, TenantRef

SHARD_COUNT = 8
"""The number of shards by which the scaler's replicas share the clusters."""


class UnknownSubject(ValueError):
    """A subject is not one of ours, or its tokens are not valid ids."""


def job_pending(ref: ClusterRef) -> str:
    """The subject of a cluster's queue snapshots, which the proxy publishes."""
    return f"job.pending.{ref.tenant}.{ref.cluster}"


def job_shard(ref: ClusterRef) -> int:
    """The shard of a cluster: FNV-1a of both tokens, as the server computes `{{partition(N,1,2)}}`."""
    hashed = 0x811C9DC5
    for byte in f"{ref.tenant}{ref.cluster}".encode():
        hashed = ((hashed ^ byte) * 0x01000193) & 0xFFFFFFFF
    return hashed % SHARD_COUNT


def job_sharded(ref: ClusterRef) -> str:
    """The subject under which the JOB stream stores a snapshot: by shard, so that a scaler consumes its share."""
    return f"job.partition.{job_shard(ref)}.{ref.tenant}.{ref.cluster}"


def job_shard_filter(shard: int) -> str:
    """The subjects of all snapshots of one shard."""
    return f"job.partition.{shard}.*.*"


def scale_desired(ref: ClusterRef) -> str:
    """The subject of a cluster's desired state, which the scaler publishes."""
    return f"scale.desired.{ref.tenant}.{ref.cluster}"


def heartbeat(ref: ClusterRef) -> str:
    """The subject of the heartbeats of a cluster's edge-agent."""
    return f"heartbeat.{ref.tenant}.{ref.cluster}"


def event(ref: ClusterRef, kind: str) -> str:
    """The subject of events of one kind; a kind has two tokens, such as `job.running`."""
    return f"event.{ref.tenant}.{ref.cluster}.{kind}"


def events_of_tenant(ref: TenantRef) -> str:
    """The subjects of all events of a tenant's clusters."""
    return f"event.{ref.tenant}.>"


def edge_event(ref: ClusterRef, kind: str) -> str:
    """The subject of events of one kind that an edge-agent tells, in the control plane's account."""
    return f"edge-event.{ref.tenant}.{ref.cluster}.{kind}"


def events_of(ref: ClusterRef, kind: str = ">") -> str:
    """The subjects of all events of a cluster, or with `kind="job.*"` of one kind of entity."""
    return f"event.{ref.tenant}.{ref.cluster}.{kind}"


def slurm(ref: ClusterRef, operation: str) -> str:
    """The subject of requests to the proxy of a cluster."""
    return f"slurm.{ref.tenant}.{ref.cluster}.{operation}"


def edge(ref: ClusterRef, operation: str) -> str:
    """The subject of requests to the edge-agent of a cluster."""
    return f"edge.{ref.tenant}.{ref.cluster}.{operation}"


def history(ref: ClusterRef) -> str:
    """The subject of requests to the event archive about one cluster."""
    return f"history.{ref.tenant}.{ref.cluster}"


def tenant_history(ref: TenantRef) -> str:
    """The subject of requests to the event archive about several clusters of a tenant."""
    return f"tenant-history.{ref.tenant}"


def scaler(ref: ClusterRef, operation: str) -> str:
    """The subject of requests to the scaler that decides for a cluster."""
    return f"scaler.{ref.tenant}.{ref.cluster}.{operation}"


def forget(ref: ClusterRef, service: str) -> str:
    """The subject of requests to a service to remove its records of a cluster that is deleted."""
    return f"forget.{ref.tenant}.{ref.cluster}.{service}"


def ledger(ref: ClusterRef, operation: str) -> str:
    """The subject of requests to the ledger about one cluster."""
    return f"ledger.{ref.tenant}.{ref.cluster}.{operation}"


def usage(ref: TenantRef) -> str:
    """The subject of requests to the ledger about the current cost of a tenant's jobs."""
    return f"usage.{ref.tenant}"


def webhook_test(ref: TenantRef) -> str:
    """The subject of requests to the events service to test a webhook of a tenant."""
    return f"webhook-test.{ref.tenant}"


def webhook_deliveries(ref: TenantRef) -> str:
    """The subject of requests to the events service about deliveries to a tenant's webhooks."""
    return f"webhook-deliveries.{ref.tenant}"


def mail_recipients(ref: TenantRef) -> str:
    """The subject of requests to the gateway about the people of a tenant who get mails."""
    return f"mail-recipients.{ref.tenant}"


def bus_login(ref: TenantRef) -> str:
    """The subject of requests to the authority to sign a login of an integration of a tenant."""
    return f"bus-login.{ref.tenant}"


def bus_revocation(ref: TenantRef) -> str:
    """The subject of requests to the authority to revoke logins of integrations of a tenant."""
    return f"bus-revocation.{ref.tenant}"


def revocation(ref: TenantRef) -> str:
    """The subject of what was taken from the credentials of a tenant without clusters."""
    return f"revocation.{ref.tenant}"


def dead_letter(subject: str) -> str:
    """The subject of dead letters: messages on `subject` that cannot be handled."""
    return f"dlq.{subject}"


@dataclass(frozen=True)
class Subject:
    """A parsed subject: its family, its cluster, and the remaining tokens (an operation or an event kind)."""

    family: str
    ref: ClusterRef
    rest: str = ""


_FAMILIES: dict[tuple[str, ...], tuple[str, Callable[[int], bool]]] = {
    ("job", "pending"): ("job.pending", lambda rest: rest == 0),
    ("scale", "desired"): ("scale.desired", lambda rest: rest == 0),
    ("heartbeat",): ("heartbeat", lambda rest: rest == 0),
    ("event",): ("event", lambda rest: rest == 2),
    ("edge-event",): ("edge-event", lambda rest: rest == 2),
    ("slurm",): ("slurm", lambda rest: rest == 1),
    ("edge",): ("edge", lambda rest: rest == 1),
    ("history",): ("history", lambda rest: rest == 0),
    ("scaler",): ("scaler", lambda rest: rest == 1),
    ("forget",): ("forget", lambda rest: rest == 1),
    ("ledger",): ("ledger", lambda rest: rest == 1),
}

TENANT_FAMILIES = frozenset(
    {
        "usage",
        "tenant-history",
        "revocation",
        "webhook-test",
        "webhook-deliveries",
        "mail-recipients",
        "bus-login",
        "bus-revocation",
    }
)
"""The families of subjects that name a tenant and no cluster."""


def parse(subject: str) -> Subject:
    """Parses the subject of a cluster. A subject stored by the JOB stream is read as the one it was published on.

    Raises UnknownSubject.
    """
    tokens = subject.split(".")
    if tokens[:2] == ["job", "partition"] and len(tokens) == 5:
        tokens = ["job", "pending", *tokens[3:]]
    for prefix, (family, allows) in _FAMILIES.items():
        size = len(prefix)
        if tuple(tokens[:size]) == prefix and len(tokens) >= size + 2:
            rest = tokens[size + 2 :]
            if not allows(len(rest)) or not all(rest):
                break
            try:
                ref = ClusterRef(tenant=tokens[size], cluster=tokens[size + 1])
            except ValidationError as error:
                raise UnknownSubject(f"{subject!r} names no valid tenant and cluster") from error
            return Subject(family, ref, ".".join(rest))
    raise UnknownSubject(f"{subject!r} is not the subject of a cluster")


def parse_tenant(subject: str) -> TenantRef:
    """Parses the subject of a tenant. Raises UnknownSubject."""
    family, _, tenant = subject.partition(".")
    try:
        if family in TENANT_FAMILIES:
            return TenantRef(tenant=tenant)
    except ValidationError as error:
        raise UnknownSubject(f"{subject!r} names no valid tenant") from error
    raise UnknownSubject(f"{subject!r} is not the subject of a tenant")
