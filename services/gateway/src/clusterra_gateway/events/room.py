"""The room of events: the past and the present of a cluster, and the audit log of a tenant."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.events.audit import Audit
from clusterra_gateway.events.handlers import Events
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room


def room(connections: Connections, access: Access) -> Room:
    """What this room offers."""
    bus = connections.bus
    return Room(routes=routes_of(Events(access, bus.archive, bus.feed), Audit(access, bus.archive), access=access))
