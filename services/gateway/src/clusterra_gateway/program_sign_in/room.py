"""The room of sign-in for programs: by a code on another device, and by the browser of the same machine."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.program_sign_in.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.device_flows import DeviceFlows
from clusterra_gateway.program_sign_in.device_routes import DeviceHandlers
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.loopback_routes import LoopbackHandlers
from clusterra_gateway.program_sign_in.token_endpoint import TokenEndpoint
from clusterra_gateway.room import Room


def room(connections: Connections, identity: IdentityParts) -> Room:
    """What this room offers."""
    settings, directory = connections.settings, connections.directory
    tokens = ProgramTokens(directory, identity.tokens)
    flows, codes = DeviceFlows(directory.store), AuthorizationCodes(directory.store)
    addresses = ClientAddresses(settings.trusted_proxies)
    device = DeviceHandlers(flows, tokens, settings.own_issuer, addresses)
    loopback = LoopbackHandlers(codes, tokens, settings.own_issuer)
    endpoint = TokenEndpoint(loopback.redeem, device.redeem, addresses, settings.own_issuer)
    return Room(routes=routes_of(endpoint, device, loopback, access=identity.access))
