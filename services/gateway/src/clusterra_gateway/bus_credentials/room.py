"""The room of bus credentials. It keeps their records; the authority signs and revokes their logins."""

from clusterra_gateway.bus_credentials.handlers import BusCredentialHandlers
from clusterra_gateway.bus_credentials.records import BusCredentialRecords
from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room


def room(connections: Connections, access: Access) -> Room:
    """What this room offers."""
    bus = connections.bus
    records = BusCredentialRecords(connections.directory, bus.registry)
    return Room(routes=routes_of(BusCredentialHandlers(records, bus.logins, bus.registry), access=access))
