"""The room of the console."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.console.handlers import ConsoleHandlers
from clusterra_gateway.console.site import Site
from clusterra_gateway.files.origins import BucketOrigins
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room


def room(connections: Connections, access: Access, site: Site | None) -> Room:
    """What this room offers. The routes are there without a console, too: what is served depends on no setting."""
    return Room(routes=routes_of(ConsoleHandlers(site, access, BucketOrigins(connections.bus.registry))))
