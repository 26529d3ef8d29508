"""Tells programs where the endpoints of sign-in are (RFC 8414): they need to know the gateway's address only."""

from aiohttp import web

from clusterra_gateway.accounts.roles import PROGRAM_SCOPES, Scope
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.routes.api_page import PAGE
from clusterra_gateway.http.routes.route_group import public_routes
from clusterra_gateway.program_sign_in.oauth_routes import AUTHORIZE, DEVICE
from clusterra_gateway.program_sign_in.token_endpoint import AUTHORIZATION_CODE, DEVICE_CODE, TOKEN

METADATA = "/.well-known/oauth-authorization-server"


api = public_routes()


class ServerMetadata(ResponseBody):
    """The metadata of the gateway as an authorization server for programs."""

    issuer: str
    authorization_endpoint: str
    device_authorization_endpoint: str
    token_endpoint: str
    service_documentation: str
    scopes_supported: tuple[Scope, ...] = PROGRAM_SCOPES
    response_types_supported: tuple[str, ...] = ("code",)
    grant_types_supported: tuple[str, ...] = (AUTHORIZATION_CODE, DEVICE_CODE)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("none",)
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)
    authorization_response_iss_parameter_supported: bool = True
    """The browser brings `iss` back, too (RFC 9207)."""


class ServerDescription:
    """The handler of the metadata."""

    def __init__(self, issuer: str) -> None:
        """`issuer`: the gateway's address, without a slash at its end."""
        self._metadata = ServerMetadata(
            issuer=issuer,
            authorization_endpoint=issuer + AUTHORIZE,
            device_authorization_endpoint=issuer + DEVICE,
            token_endpoint=issuer + TOKEN,
            service_documentation=issuer + PAGE,
        )

    @api.get("oauth_metadata", METADATA, result=ServerMetadata)
    async def show(self, _request: web.Request) -> web.StreamResponse:
        """Describes sign-in for programs (RFC 8414): OAuth clients find the endpoints here."""
        return json_response(self._metadata)
