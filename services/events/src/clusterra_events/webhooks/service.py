"""Wires the parts of the webhooks together."""

from collections.abc import Sequence

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import now
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.lease_terms import Lease
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.service import Service
from clusterra_runtime.store.store import Store
from nats.aio.subscription import Subscription

from clusterra_events.webhooks.definitions import Definitions
from clusterra_events.webhooks.delivery import Deliverer, Target
from clusterra_events.webhooks.forgetting import Forgetting
from clusterra_events.webhooks.requests import SERVICE, WebhookRequests
from clusterra_events.webhooks.sender import Sender
from clusterra_events.webhooks.state_table import DeliveryRecords
from clusterra_events.webhooks.sweep import DIVISION, SHARDS, WebhookSweep

EVENTS = "event.*.*.*.*"
MOST_TOLD = 50
"""The most clusters whose history gets the event `webhook.disabled`."""

log = structlog.get_logger(__name__)


class Webhooks:
    """The room's parts. Each replica delivers to its share of the webhooks, and answers requests."""

    def __init__(
        self,
        store: Store,
        client: Client,
        registry: Registry,
        sender: Sender,
        beside: Sequence[WebhookSweep] = (),
    ) -> None:
        """`beside`: sweeps of what is delivered in the same way, which share the leases."""
        self._beside = beside
        self._client = client
        self._registry = registry
        self._publisher = EventPublisher(client, SERVICE)
        self.records = records = DeliveryRecords(store)
        self.forgetting = Forgetting(store, records)
        self.definitions = Definitions(store, self._tenants, self.forgetting.forget_gone)
        self.deliverer = Deliverer(client, records, sender, self.definitions.is_current, self._tell_disabled)
        self.sweep = WebhookSweep(self.deliverer, self.definitions)
        self.requests = WebhookRequests(store, records, sender, lambda: tuple(registry.clusters))

    async def serve(self, service: Service) -> tuple[Subscription, ...]:
        """Answer requests and deliver in the background. Returns what was subscribed."""
        leases = Leases(
            self._client, service.name, SHARDS, self._lead, instance=service.settings.instance, division=DIVISION
        )
        for sweep in (self.sweep, *self._beside):
            sweep.only(lambda: leases.held)
        subscriptions = await self.requests.serve(self._client)
        events = await self._client.listen(EVENTS, self.sweep.on_event)
        service.background("webhook leases", leases.run)
        service.background("webhook definitions", self.definitions.run)
        service.background("webhooks", self.sweep.sweeper().run)
        return *subscriptions, events

    async def _lead(self, lease: Lease) -> None:
        for sweep in self._beside:
            sweep.visit_all()
        await self.sweep.lead(lease)

    def _tenants(self) -> set[str]:
        return {ref.tenant for ref in self._registry.clusters}

    async def _tell_disabled(self, target: Target, reason: str) -> None:
        """Publish `webhook.disabled` in the tenant's clusters, once for each `deliver_from` of the webhook."""
        webhook = target.webhook
        fact = AdminFact(kind="webhook.disabled", actor=SERVICE, subject=webhook.id, detail=reason)
        clusters = sorted((ref for ref in self._registry.clusters if ref.tenant == target.tenant), key=str)
        for ref in clusters[:MOST_TOLD]:
            await self._publisher.publish(ref, fact, version=webhook.deliver_from.id, time=now())
        log.warning("webhook_disabled", tenant=target.tenant, webhook=webhook.id, reason=reason)
