"""The NATS permissions of each party, for static users (local) and for logins by JWT (production) alike."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clusterra_contracts.bus import sharing, subjects, traces
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.bus.topology import (
    CONSUMERS,
    EVENTS_ARCHIVE,
    EVENTS_EDGE,
    EVENTS_LEDGER,
    JOB,
    LEASES,
    REGISTRY,
    VERSIONS,
    Consumer,
)
from clusterra_contracts.identity import ClusterRef, TenantRef

CentralService = Literal["gateway", "proxy", "scaler", "events"]
CENTRAL_SERVICES: tuple[CentralService, ...] = ("gateway", "proxy", "scaler", "events")
"""The services of the central side."""

AUTHORITY: Literal["authority"] = "authority"
"""The process that signs the logins of integrations. Nothing but NATS reaches it."""

_JETSTREAM = (
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.DIRECT.GET.>",
)
"""Reading of streams. Streams and consumers are made and changed by `clusterra-admin topology` alone.

The server checks the subject of a request for a consumer, but not the `deliver_subject` in its body: who may make one
can have a stream's messages pushed to any subject, as if it might publish there.
"""
_DURABLES: Mapping[CentralService, tuple[Consumer, ...]] = {
    "scaler": tuple(each for each in CONSUMERS if each.stream == JOB.name),
    "events": tuple(each for each in CONSUMERS if each.name in (EVENTS_ARCHIVE, EVENTS_EDGE, EVENTS_LEDGER)),
}
"""The durable consumers that each service pulls from and nobody else."""
_LEASED = frozenset({"gateway", "proxy", "scaler", "events"})
"""The services that share work by leases."""


@dataclass(frozen=True)
class Permissions:
    """The subjects that may be published and subscribed; `replies` allows answers to received requests."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    replies: bool = False


def inbox_prefix(ref: ClusterRef) -> str:
    """The inbox of one agent. With the default `_INBOX`, every user of the account could read all replies."""
    return f"_EDGE.{ref.tenant}.{ref.cluster}"


def control_plane() -> Permissions:
    """The permissions of operators, who make streams, provision clusters and look at everything."""
    return Permissions(publish=(">",), subscribe=(">",))


def central_service(service: CentralService) -> Permissions:
    """The permissions of a central service: the messages that the table of messages gives it, for all tenants."""
    publish = [_pattern(each.address, service) for each in PUBLICATIONS if each.sender in (service, "*")]
    publish += [_pattern(each.address, service) for each in REQUESTS if service in each.clients]
    if service == "gateway":
        # It passes on what agents without a connection to NATS report over HTTP.
        publish.append("heartbeat.*.*")
        # What remains of a cluster that is deleted. The server checks the stream, not the subjects in the request.
        publish += [f"$JS.API.STREAM.PURGE.{stream}" for stream in traces.PURGED]
    if service in _LEASED:
        publish += [f"$KV.{LEASES.name}.{service}.>", f"$JS.API.STREAM.PURGE.KV_{LEASES.name}"]
    publish += [f"$JS.API.STREAM.PURGE.KV_{VERSIONS.name}", subjects.dead_letter(">"), *_JETSTREAM]
    for consumer in _DURABLES.get(service, ()):
        path = f"{consumer.stream}.{consumer.name}"
        publish += [f"$JS.API.CONSUMER.INFO.{path}", f"$JS.API.CONSUMER.MSG.NEXT.{path}", f"$JS.ACK.{path}.>"]
    subscribe = [_pattern(each.address, service) for each in PUBLICATIONS if service in each.receivers]
    subscribe += [_pattern(each.address, service) for each in REQUESTS if each.server == service]
    subscribe.append(f"$KV.{REGISTRY.name}.>")
    return Permissions(publish=tuple(publish), subscribe=(*subscribe, f"_INBOX_{service}.>"), replies=True)


def _pattern(address: str, service: str) -> str:
    """The subject of an address for every tenant and cluster. An event's kind has two tokens."""
    return re.sub(r"\{\w+\}", "*", address.replace("{kind}", "*.*").replace("{service}", service))


def edge_agent(ref: ClusterRef) -> Permissions:
    """The permissions of an agent in a customer's network, inside the account of its cluster.

    They are a second wall: the account shares nothing else (`bus.sharing`). In an account with JetStream they would not
    be enough, because nats-server checks no reply subject.
    """
    return Permissions(
        publish=tuple(sharing.services_for_agent(ref)),
        subscribe=(*sharing.streams_for_agent(ref), *sharing.services_of_agent(ref), f"{inbox_prefix(ref)}.>"),
        replies=True,
    )


def authority() -> Permissions:
    """The permissions of the authority in the control plane's account: it answers two requests, and sends nothing.

    The receiver of a request answers it through `replies`. A request that cannot be read becomes no dead letter.
    """
    return Permissions(
        publish=(),
        subscribe=tuple(_pattern(each.address, AUTHORITY) for each in REQUESTS if each.server == AUTHORITY),
        replies=True,
    )


def authority_in_system_account() -> Permissions:
    """The permissions of the authority in the system account: read and change what the servers know of accounts.

    The server takes only what a key of the operator has signed.
    """
    return Permissions(
        publish=("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"),
        subscribe=(f"_INBOX_{AUTHORITY}.>",),
    )


def integration(ref: TenantRef, cluster: str | None = None) -> Permissions:
    """The permissions of an integration: it reads the events of its tenant, or of one cluster, and sends nothing.

    Without a subject to send on, there is no reply subject to name either.
    """
    if cluster is None:
        return Permissions(publish=(), subscribe=(subjects.events_of_tenant(ref),))
    return Permissions(publish=(), subscribe=(subjects.events_of(ClusterRef(tenant=ref.tenant, cluster=cluster)),))
