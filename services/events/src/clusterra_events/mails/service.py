"""Wires the parts of the mails together."""

from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.service import Service
from clusterra_runtime.store.store import Store
from nats.aio.subscription import Subscription

from clusterra_events.mails.sending import MailSender
from clusterra_events.mails.targets import MailTargets
from clusterra_events.webhooks.delivery import Deliverer, Target
from clusterra_events.webhooks.service import EVENTS
from clusterra_events.webhooks.state_table import DeliveryRecords
from clusterra_events.webhooks.sweep import WebhookSweep


class Mails:
    """The room's parts. Each replica sends the mails of its share of the tenants."""

    def __init__(self, store: Store, client: Client, registry: Registry, sender: MailSender) -> None:
        self._client = client
        self._registry = registry
        self.records = DeliveryRecords(store, family="mails")
        targets = MailTargets(self._tenants)
        deliverer = Deliverer(client, self.records, sender, targets.is_current, _tell_nobody, may_disable=False)
        self.sweep = WebhookSweep(deliverer, targets, "mails")

    async def serve(self, service: Service) -> Subscription:
        """Send mails in the background, under the leases of the webhooks. Returns what was subscribed."""
        events = await self._client.listen(EVENTS, self.sweep.on_event)
        service.background("mails", self.sweep.sweeper().run)
        return events

    def _tenants(self) -> set[str]:
        return {ref.tenant for ref in self._registry.clusters}


async def forget_mails(store: Store, tenant: str, most: int) -> int:
    """Remove about `most` records of the mails of a tenant without clusters. Returns how many. Raises StoreError."""
    records, removed = DeliveryRecords(store, family="mails"), 0
    for each in await records.known(tenant):
        if removed < most:
            removed += await records.forget(tenant, each, most - removed)
    return removed


async def _tell_nobody(_target: Target, _reason: str) -> None:
    """Failures never disable mails."""
