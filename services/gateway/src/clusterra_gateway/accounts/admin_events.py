"""Events of what is done to an account, as messages that go with the write that makes them true."""

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import AdminFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.outbox import OutboxMessage

SERVICE = "gateway"


def admin_event(ref: ClusterRef, fact: AdminFact, *, version: str) -> OutboxMessage:
    """Tell a fact in one cluster's history; `version` tells it from others of its kind for the same subject."""
    event = event_of(SERVICE, ref, fact, version=version, time=now())
    return OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event)


def tenant_events(registry: Registry, tenant: str, fact: AdminFact, *, version: str) -> list[OutboxMessage]:
    """Tell a fact about a person in the histories of all clusters of the tenant."""
    return [admin_event(ref, fact, version=version) for ref in registry.clusters if ref.tenant == tenant]
