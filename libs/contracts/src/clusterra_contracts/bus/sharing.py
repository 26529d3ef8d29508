"""What the account of the control plane and the account of one cluster share on NATS.

Permissions alone do not confine an edge-agent: nats-server checks no reply subject, and JetStream answers to any
subject of the account with rights of its own. So a cluster has an account of its own, without JetStream. A request
through an import gets its answer in the account that it came from, whatever its reply subject is.
"""

from collections.abc import Mapping

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import SCALE
from clusterra_contracts.events import AGENT_KINDS
from clusterra_contracts.identity import ClusterRef, TenantRef

_EVERY = ClusterRef.model_construct(tenant="*", cluster="*")
_EVERY_TENANT = TenantRef.model_construct(tenant="*")


def services_for_agent(ref: ClusterRef) -> Mapping[str, str]:
    """The subjects that a cluster's agent publishes, and those under which the control plane's account takes them.

    Events arrive apart from those of the central services, which they must not push out. Every subject is exact: with a
    token of its choice, an agent could fill a stream that is bounded by subject.
    """
    desired = subjects.scale_desired(ref)
    same = (
        subjects.heartbeat(ref),
        f"$JS.API.DIRECT.GET.{SCALE.name}.{desired}",
        subjects.dead_letter(desired),
        subjects.dead_letter(subjects.edge(ref, "log")),
    )
    events = {subjects.event(ref, kind): subjects.edge_event(ref, kind) for kind in AGENT_KINDS}
    return {subject: subject for subject in same} | events


def streams_for_agent(ref: ClusterRef) -> tuple[str, ...]:
    """The subjects of the control plane's account that a cluster's agent subscribes."""
    return (subjects.scale_desired(ref),)


def services_of_agent(ref: ClusterRef) -> tuple[str, ...]:
    """The requests of the control plane that a cluster's agent answers."""
    return (subjects.edge(ref, "*"),)


def shared_services() -> tuple[str, ...]:
    """`services_for_agent` of all clusters: what the control plane's account exports."""
    return tuple(services_for_agent(_EVERY).values())


def shared_streams() -> tuple[str, ...]:
    """`streams_for_agent` of all clusters: what the control plane's account exports."""
    return (*streams_for_agent(_EVERY), *streams_for_integrations(_EVERY_TENANT))


def streams_for_integrations(ref: TenantRef) -> tuple[str, ...]:
    """The subjects of the control plane's account that the account of a tenant's integrations imports.

    It has no others, in no direction: no request, no reply, no JetStream.
    """
    return (subjects.events_of_tenant(ref),)
