"""What each party may do on NATS. One function for static users (local) and for scoped signing keys (production)."""

from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef


@dataclass(frozen=True)
class Permissions:
    """Subjects that may be published and subscribed; `replies` lets it answer requests it received."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    replies: bool = False


def inbox_prefix(ref: ClusterRef) -> str:
    """The inbox of one agent: the default `_INBOX` of an account lets everybody in it read all replies."""
    return f"_EDGE.{ref.tenant}.{ref.cluster}"


def control_plane() -> Permissions:
    """Our own services: they are one trust domain; the tenants are told apart by what they are asked."""
    return Permissions(publish=(">",), subscribe=(">",))


def edge_agent(ref: ClusterRef) -> Permissions:
    """An agent in a customer's network: its own cluster and nothing else.

    Only the direct get that ends in a subject can be limited so; `CONSUMER.CREATE`, `STREAM.MSG.GET` and the plain
    `DIRECT.GET.<stream>` take their selection from the body and would read every tenant.
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
