"""The room of events: the past and the present of a cluster, and the audit log of a tenant."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.events import routes
from clusterra_gateway.events.audit import routes as audit
from clusterra_gateway.identity.access import Access
from clusterra_gateway.room import Room


def room(connections: Connections, access: Access) -> Room:
    """What this room offers."""
    bus = connections.bus
    return Room(routes=(*routes.routes(access, bus.archive, bus.feed), *audit.routes(access, bus.archive)))
