"""The only place where subjects are spelled. Builders take references, parsers give them back."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from clusterra_contracts.identity import ClusterRef, TenantRef

JOB_PARTITIONS = 8
"""Into how many partitions the clusters are divided among the scaler's replicas."""


class UnknownSubject(ValueError):
    """A subject that is none of ours, or whose tokens are no valid ids."""


def job_pending(ref: ClusterRef) -> str:
    """Where the proxy publishes a cluster's queue snapshots."""
    return f"job.pending.{ref.tenant}.{ref.cluster}"


def job_partition(ref: ClusterRef) -> int:
    """The partition of a cluster, as the server's `{{partition(N,1,2)}}` computes it: FNV-1a of both tokens."""
    hashed = 0x811C9DC5
    for byte in f"{ref.tenant}{ref.cluster}".encode():
        hashed = ((hashed ^ byte) * 0x01000193) & 0xFFFFFFFF
    return hashed % JOB_PARTITIONS


def job_partitioned(ref: ClusterRef) -> str:
    """How the JOB stream stores a snapshot: by partition, so that a scaler can consume just its share."""
    return f"job.partition.{job_partition(ref)}.{ref.tenant}.{ref.cluster}"


def job_partition_filter(partition: int) -> str:
    """All snapshots of one partition."""
    return f"job.partition.{partition}.*.*"


def scale_desired(ref: ClusterRef) -> str:
    """Where the scaler publishes a cluster's desired state."""
    return f"scale.desired.{ref.tenant}.{ref.cluster}"


def heartbeat(ref: ClusterRef) -> str:
    """Where a cluster's edge-agent tells what it has."""
    return f"heartbeat.{ref.tenant}.{ref.cluster}"


def event(ref: ClusterRef, kind: str) -> str:
    """Where a fact of this kind is told; a kind is two tokens, such as `job.running`."""
    return f"event.{ref.tenant}.{ref.cluster}.{kind}"


def events_of(ref: ClusterRef, kind: str = ">") -> str:
    """All events of a cluster, or with `kind="job.*"` those of one entity."""
    return f"event.{ref.tenant}.{ref.cluster}.{kind}"


def slurm(ref: ClusterRef, operation: str) -> str:
    """A request to the proxy of a cluster."""
    return f"slurm.{ref.tenant}.{ref.cluster}.{operation}"


def edge(ref: ClusterRef, operation: str) -> str:
    """A request to the edge-agent of a cluster."""
    return f"edge.{ref.tenant}.{ref.cluster}.{operation}"


def history(ref: ClusterRef) -> str:
    """A request to the event archive for one cluster."""
    return f"history.{ref.tenant}.{ref.cluster}"


def scaler(ref: ClusterRef, operation: str) -> str:
    """A request to the scaler that decides for a cluster."""
    return f"scaler.{ref.tenant}.{ref.cluster}.{operation}"


def usage(ref: TenantRef) -> str:
    """A request to the scaler for what a tenant's jobs cost now."""
    return f"usage.{ref.tenant}"


def dead_letter(subject: str) -> str:
    """Where a message goes that nobody can handle."""
    return f"dlq.{subject}"


@dataclass(frozen=True)
class Subject:
    """One parsed subject: its family, whom it is about, and its last tokens (an operation or an event kind)."""

    family: str
    ref: ClusterRef
    rest: str = ""


_FAMILIES: dict[tuple[str, ...], tuple[str, Callable[[int], bool]]] = {
    ("job", "pending"): ("job.pending", lambda rest: rest == 0),
    ("scale", "desired"): ("scale.desired", lambda rest: rest == 0),
    ("heartbeat",): ("heartbeat", lambda rest: rest == 0),
    ("event",): ("event", lambda rest: rest == 2),
    ("slurm",): ("slurm", lambda rest: rest == 1),
    ("edge",): ("edge", lambda rest: rest == 1),
    ("history",): ("history", lambda rest: rest == 0),
    ("scaler",): ("scaler", lambda rest: rest == 1),
}


def parse(subject: str) -> Subject:
    """Read a subject about a cluster; a JOB stream's stored subject is read as the one it was published on.

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
    raise UnknownSubject(f"{subject!r} is no subject about a cluster")


def parse_usage(subject: str) -> TenantRef:
    """Read a `usage` subject. Raises UnknownSubject."""
    family, _, tenant = subject.partition(".")
    try:
        if family == "usage":
            return TenantRef(tenant=tenant)
    except ValidationError as error:
        raise UnknownSubject(f"{subject!r} names no valid tenant") from error
    raise UnknownSubject(f"{subject!r} is no usage subject")
