"""Events about accounts, as outbox messages of the write that makes them true."""

from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import AdminFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import Put

from clusterra_gateway.accounts.kept_events import SERVICE, are_told_at_once, kept_fact


def cluster_event(ref: ClusterRef, fact: AdminFact, *, version: str) -> OutboxMessage:
    """The event of a fact in one cluster's history.

    `version` distinguishes it from other events of the same kind and subject.
    """
    event = event_of(SERVICE, ref, fact, version=version, time=now())
    return OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event)


@dataclass(frozen=True)
class TenantEvents:
    """What a write about a person adds to its transaction, so that the history of their tenant has the fact."""

    messages: list[OutboxMessage]
    """One event for the history of each cluster of the tenant."""
    kept: list[Put]
    """The fact itself, for a tenant without clusters, or with more than an item has room for (`KeptEvents`)."""


def tenant_events(registry: Registry, tenant: str, fact: AdminFact, *, version: str) -> TenantEvents:
    """The events of a fact about a person: one in the history of each cluster of their tenant."""
    clusters = [ref for ref in registry.clusters if ref.tenant == tenant]
    if not are_told_at_once(len(clusters)):
        return TenantEvents([], [kept_fact(tenant, fact, version=version, at=now())])
    return TenantEvents([cluster_event(ref, fact, version=version) for ref in clusters], [])
