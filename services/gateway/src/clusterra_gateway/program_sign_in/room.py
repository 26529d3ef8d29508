"""The room of sign-in for programs: by a code on another device, and by the browser of the same machine."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.client_address import ClientAddresses
from clusterra_gateway.http.route_group import routes_of
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.program_sign_in.device_flow.flows import DeviceFlows
from clusterra_gateway.program_sign_in.device_flow.person_side import PersonSide as DevicePersonSide
from clusterra_gateway.program_sign_in.device_flow.program_side import ProgramSide as DeviceProgramSide
from clusterra_gateway.program_sign_in.loopback.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.loopback.person_side import PersonSide as LoopbackPersonSide
from clusterra_gateway.program_sign_in.loopback.program_side import ProgramSide as LoopbackProgramSide
from clusterra_gateway.program_sign_in.oauth.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth.server_metadata import ServerDescription
from clusterra_gateway.program_sign_in.oauth.token_endpoint import TokenEndpoint
from clusterra_gateway.room import Room


def room(connections: Connections, identity: IdentityParts) -> Room:
    """What this room offers."""
    settings, directory = connections.settings, connections.directory
    tokens = ProgramTokens(directory, identity.tokens, identity.revocations)
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
