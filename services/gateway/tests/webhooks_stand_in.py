"""Stands in for the events service, as far as it delivers to webhooks."""

from collections.abc import Awaitable
from dataclasses import dataclass, field

from answering import rpc_failure
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.rpc import webhooks as rpc
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import serve_tenant
from nats.aio.subscription import Subscription

DELIVERED = rpc.Attempt(delivered=True, status=204, seconds=0.01)
WORKING = rpc.DeliveryPage(state="working", deliveries=())


@dataclass
class WebhooksStandIn:
    """What came of tests, and the deliveries to a tenant's webhooks: the test says it."""

    outcome: rpc.Attempt = DELIVERED
    away: bool = False
    tests: list[rpc.TestWebhook] = field(default_factory=list)
    reads: list[rpc.ReadDeliveries] = field(default_factory=list)
    page: rpc.DeliveryPage = WORKING

    def served(self, client: Client, tenant: str) -> tuple[Awaitable[Subscription], ...]:
        return (
            serve_tenant(client, f"webhook-test.{tenant}", rpc.TestWebhook, self._test),
            serve_tenant(client, f"webhook-deliveries.{tenant}", rpc.ReadDeliveries, self._deliveries),
        )

    async def _test(self, _tenant: TenantRef, request: rpc.TestWebhook) -> rpc.Attempt:
        self.tests.append(request)
        if self.away:
            raise rpc_failure("unavailable", "nobody delivers")
        return self.outcome

    async def _deliveries(self, _tenant: TenantRef, request: rpc.ReadDeliveries) -> rpc.DeliveryPage:
        self.reads.append(request)
        if self.away:
            raise rpc_failure("unavailable", "nobody delivers")
        return self.page
