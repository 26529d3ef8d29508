"""The token endpoint: redeems what a program has, whichever way it was signed in."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints

from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.form_body import Form, read_form
from clusterra_gateway.identity.access.rate_limits import RateLimits, Rates
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.oauth_routes import DEVICE, OAuthFailure, oauth_routes
from clusterra_gateway.program_sign_in.program import ClientId, TokenAnswer

TOKEN = "/v1/auth/token"  # noqa: S105 - a path
AUTHORIZATION_CODE = "authorization_code"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
PER_ADDRESS = 3000
"""How many requests an address may send in a minute: it may be that of a load balancer, behind which all are."""

_Code = Annotated[str, StringConstraints(min_length=1, max_length=200)]


api = oauth_routes()


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


type Redeem[G: BaseModel] = Callable[[G], Awaitable[FreshToken]]


class TokenEndpoint:
    """The handler of the token endpoint."""

    def __init__(self, code: Redeem[CodeGrant], device: Redeem[DeviceGrant], addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._code = code
        self._device = device
        self._by_address = RateLimits(Rates(PER_ADDRESS, PER_ADDRESS))

    @api.post("auth_token", TOKEN, body=TokenRequest, result=TokenAnswer)
    @api.post("device_token", f"{DEVICE}/token", body=DeviceGrant, result=TokenAnswer)
    async def redeem(self, request: web.Request) -> web.StreamResponse:
        """Returns an API token for an authorization code, or for a device code that a person has approved.

        It has the asked scopes, and the name of the machine. An authorization code is good for a minute, and once. When
        its program redeems it again, somebody else may have the first answer, so the token that it gave is revoked. For
        a device code, it answers `authorization_pending` until the person has approved. After `slow_down`, wait five
        seconds longer between two polls.
        """
        self._by_address.admit(request, self._addresses.of(request))
        return json_response(TokenAnswer.of(await self._redeemed(await read_form(request))))

    async def _redeemed(self, given: Form) -> FreshToken:
        if "grant_type" not in given.fields or "grant_type" in given.repeated:
            raise OAuthFailure("invalid_request", "send grant_type once")
        match given.fields["grant_type"]:
            case "authorization_code":
                return await self._code(given.read(CodeGrant))
            case "urn:ietf:params:oauth:grant-type:device_code":
                return await self._device(given.read(DeviceGrant))
        raise OAuthFailure("unsupported_grant_type", f"grant_type must be {AUTHORIZATION_CODE} or {DEVICE_CODE}")
