"""The token endpoint, which redeems what a program has, and the metadata by which programs find the endpoints."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints

from clusterra_gateway.accounts.roles import PROGRAM_SCOPES, Scope
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.parameters import Form, read_form
from clusterra_gateway.http.routes.api_page import PAGE
from clusterra_gateway.http.routes.route_group import public_routes
from clusterra_gateway.identity.access.limits import RateLimits, Rates
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.oauth_routes import AUTHORIZE, DEVICE, OAuthFailure, oauth_routes
from clusterra_gateway.program_sign_in.program import ClientId, TokenAnswer

METADATA = "/.well-known/oauth-authorization-server"
TOKEN = "/v1/auth/token"  # noqa: S105 - a path
AUTHORIZATION_CODE = "authorization_code"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
PER_ADDRESS = 3000
"""How many requests an address may send in a minute: it may be that of a load balancer, behind which all are."""

_Code = Annotated[str, StringConstraints(min_length=1, max_length=200)]


api = oauth_routes()
public = public_routes()


class CodeGrant(BaseModel):
    """An authorization code (RFC 6749, section 4.1.3, with PKCE of RFC 7636)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    grant_type: Literal["authorization_code"]
    code: _Code
    redirect_uri: Annotated[str, StringConstraints(max_length=200)]
    """The same as in the authorization request."""
    client_id: ClientId
    code_verifier: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~-]{43,128}$")]


class DeviceGrant(BaseModel):
    """The device code of a sign-in that a person approves elsewhere (RFC 8628, section 3.4)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    grant_type: Literal["urn:ietf:params:oauth:grant-type:device_code"]
    device_code: _Code
    client_id: ClientId


class TokenRequest(RootModel[Annotated[CodeGrant | DeviceGrant, Field(discriminator="grant_type")]]):
    """What a program redeems for its token."""


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


type Redeem[G: BaseModel] = Callable[[G], Awaitable[FreshToken]]


class TokenEndpoint:
    """The handlers of the token endpoint, and of the metadata."""

    def __init__(
        self, code: Redeem[CodeGrant], device: Redeem[DeviceGrant], addresses: ClientAddresses, issuer: str
    ) -> None:
        """`issuer`: the gateway's address, without a slash at its end."""
        self._addresses = addresses
        self._code = code
        self._device = device
        self._by_address = RateLimits(Rates(PER_ADDRESS, PER_ADDRESS))
        self._metadata = ServerMetadata(
            issuer=issuer,
            authorization_endpoint=issuer + AUTHORIZE,
            device_authorization_endpoint=issuer + DEVICE,
            token_endpoint=issuer + TOKEN,
            service_documentation=issuer + PAGE,
        )

    @api.post("auth_token", TOKEN, body=TokenRequest, result=TokenAnswer)
    @api.post("device_token", f"{DEVICE}/token", body=DeviceGrant, result=TokenAnswer)
    async def redeem(self, request: web.Request) -> web.StreamResponse:
        """Returns an API token for an authorization code, or for a device code that a person has approved.

        It has the asked scopes, and the name of the machine. An authorization code is good for a minute, and once. When
        its program redeems it again, somebody else may have the first answer, so the token that it gave is revoked. For
        a device code, it answers `authorization_pending` until the person has approved. After `slow_down`, wait five
        seconds longer between two polls.
        """
        self._by_address.admit(request, self._addresses.network_of(request))
        return json_response(TokenAnswer.of(await self._redeemed(await read_form(request))))

    @public.get("oauth_metadata", METADATA, result=ServerMetadata)
    async def show(self, _request: web.Request) -> web.StreamResponse:
        """Describes sign-in for programs (RFC 8414): OAuth clients find the endpoints here."""
        return json_response(self._metadata)

    async def _redeemed(self, given: Form) -> FreshToken:
        if "grant_type" not in given.fields or "grant_type" in given.repeated:
            raise OAuthFailure("invalid_request", "send grant_type once")
        match given.fields["grant_type"]:
            case "authorization_code":
                return await self._code(given.read(CodeGrant))
            case "urn:ietf:params:oauth:grant-type:device_code":
                return await self._device(given.read(DeviceGrant))
        raise OAuthFailure("unsupported_grant_type", f"grant_type must be {AUTHORIZATION_CODE} or {DEVICE_CODE}")
