"""Events about accounts, as outbox messages of the write that makes them true."""

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import AdminFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.outbox import OutboxMessage

SERVICE = "gateway"


def cluster_event(ref: ClusterRef, fact: AdminFact, *, version: str) -> OutboxMessage:
    """The event of a fact in one cluster's history.

    `version` distinguishes it from other events of the same kind and subject.
    """
    event = event_of(SERVICE, ref, fact, version=version, time=now())
    return OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event)


def tenant_events(registry: Registry, tenant: str, fact: AdminFact, *, version: str) -> list[OutboxMessage]:
    """The events of a fact about a person: one in the history of each cluster of their tenant."""
    return [cluster_event(ref, fact, version=version) for ref in registry.clusters if ref.tenant == tenant]
