"""The NATS permissions of each party, for static users (local) and for scoped signing keys (production) alike."""

from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef


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
    """The permissions of our own services: they are one trust domain, and requests name the tenant."""
    return Permissions(publish=(">",), subscribe=(">",))


def edge_agent(ref: ClusterRef) -> Permissions:
    """The permissions of an agent in a customer's network: its own cluster and nothing else.

    Of the read requests, only the direct get that ends in a subject can be limited to one cluster. `CONSUMER.CREATE`,
    `STREAM.MSG.GET` and the plain `DIRECT.GET.<stream>` take the subject from the body and could read every tenant.
    """
    desired = subjects.scale_desired(ref)
    return Permissions(
        publish=(
            subjects.heartbeat(ref),
            subjects.events_of(ref, "worker.*"),
            subjects.event(ref, "node.misclassified"),
            f"$JS.API.DIRECT.GET.SCALE.{desired}",
            subjects.dead_letter(desired),
            subjects.dead_letter(subjects.edge(ref, "*")),
        ),
        subscribe=(desired, subjects.edge(ref, "*"), f"{inbox_prefix(ref)}.>"),
        replies=True,
    )
