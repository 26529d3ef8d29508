"""The room of events: the past and the present of a cluster and of a tenant, and their audit."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.events.audit import Audit
from clusterra_gateway.events.handlers import Events
from clusterra_gateway.events.live import LiveEvents
from clusterra_gateway.events.tenant_handlers import TenantEvents
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room


def room(connections: Connections, access: Access) -> Room:
    """What this room offers."""
    bus = connections.bus
    archive, feed, live = bus.archive, bus.feed, LiveEvents(bus.feed)
    return Room(
        routes=routes_of(
            Events(access, archive, feed, live),
            TenantEvents(access, archive, bus.registry, feed, live),
            Audit(access, archive, bus.registry),
            access=access,
        )
    )
