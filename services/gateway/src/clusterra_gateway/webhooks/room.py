"""The room of webhooks. It keeps their records; the events service reads these, and delivers."""

from clusterra_runtime.store.webhook_records import WEBHOOKS

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room
from clusterra_gateway.webhooks.delivery_handlers import DeliveryHandlers
from clusterra_gateway.webhooks.handlers import WebhookHandlers
from clusterra_gateway.webhooks.receivers import Receivers
from clusterra_gateway.webhooks.records import WebhookRecords


def room(connections: Connections, access: Access, once: AnswerOnce) -> Room:
    """What this room offers."""
    directory, bus = connections.directory, connections.bus
    records, receivers = WebhookRecords(directory, bus.registry), Receivers(bus.webhooks)
    plain_http = bool(connections.settings.webhook_networks)
    return Room(
        routes=routes_of(
            WebhookHandlers(records, receivers, bus.registry, once, plain_http=plain_http),
            DeliveryHandlers(records, receivers, once),
            access=access,
        ),
        background={"webhooks outbox": lambda: directory.outbox.relay(WEBHOOKS)},
    )
