"""The room of sign-in for programs: by a code on another device, and by the browser of the same machine."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.program_sign_in.authorization_codes import AuthorizationCodes, LoopbackProgramSide
from clusterra_gateway.program_sign_in.device_flows import DeviceFlows
from clusterra_gateway.program_sign_in.device_routes import DevicePersonSide, DeviceProgramSide
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.loopback_person_side import LoopbackPersonSide
from clusterra_gateway.program_sign_in.token_endpoint import ServerDescription, TokenEndpoint
from clusterra_gateway.room import Room


def room(connections: Connections, identity: IdentityParts) -> Room:
    """What this room offers."""
    settings, directory = connections.settings, connections.directory
    tokens = ProgramTokens(directory, identity.tokens)
    flows, codes = DeviceFlows(directory.store), AuthorizationCodes(directory.store)
    addresses = ClientAddresses(settings.trusted_proxies)
    device = DeviceProgramSide(flows, tokens, settings.own_issuer, addresses)
    endpoint = TokenEndpoint(LoopbackProgramSide(codes, tokens).redeem, device.redeem, addresses)
    return Room(
        routes=routes_of(
            endpoint,
            ServerDescription(settings.own_issuer),
            device,
            DevicePersonSide(flows, tokens),
            LoopbackPersonSide(codes, tokens, settings.own_issuer),
            access=identity.access,
        )
    )
