"""The program redeems the code that the browser has brought."""

from typing import Annotated, Literal

import structlog
from aiohttp import web
from clusterra_contracts.identity import now
from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterra_gateway.http.form_body import form
from clusterra_gateway.http.responses import json_response
from clusterra_gateway.identity.rate_limits import RateLimits, Rates
from clusterra_gateway.loopback.authorization_codes import AuthorizationCodes
from clusterra_gateway.oauth.grants import ProgramTokens
from clusterra_gateway.oauth.program import ClientId, TokenAnswer
from clusterra_gateway.oauth.route import OAuthFailure

log = structlog.get_logger()

PER_ADDRESS = 600
"""How many codes may be sent from an address in a minute: it may be that of a load balancer."""


class TokenRequest(BaseModel):
    """The request for the token (RFC 6749, section 4.1.3, with PKCE of RFC 7636)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    grant_type: Literal["authorization_code"]
    code: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    redirect_uri: Annotated[str, StringConstraints(max_length=200)]
    """The same as in the authorization request."""
    client_id: ClientId
    code_verifier: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~-]{43,128}$")]


class ProgramSide:
    """The handler of programs."""

    def __init__(self, codes: AuthorizationCodes, tokens: ProgramTokens) -> None:
        self._codes = codes
        self._tokens = tokens
        self._by_address = RateLimits(Rates(PER_ADDRESS, PER_ADDRESS))

    async def redeem(self, request: web.Request) -> web.StreamResponse:
        """Returns the API token for a code that a browser brought from `GET /v1/auth/authorize`.

        A code is good for a minute, and once. When its program redeems it again, somebody else may have the first
        answer: so the token that the code gave is revoked. The token has the asked scopes, and the machine's name.
        """
        await self._by_address.admit(request, str(request.remote))
        asked = await form(request, TokenRequest)
        known = await self._codes.known(asked.code)
        if known is None or not known.record.belongs_to(asked.redirect_uri, asked.code_verifier):
            raise OAuthFailure("invalid_grant", "the code, its redirect_uri or its code_verifier is wrong")
        if known.record.state == "redeemed":
            await self._tokens.withdraw(known.record, known.record.token_id)
            raise OAuthFailure("invalid_grant", "this code was redeemed before, and its token is revoked now")
        if known.record.valid_until <= now():
            raise OAuthFailure("invalid_grant", "this code has expired: begin again")
        return json_response(TokenAnswer.of(await self._tokens.issue(known.record, known.redeemed)))
