"""The loopback flow: a page where a person lets a program on their own machine in, and the code that it redeems."""

from http import HTTPStatus
from typing import Literal

import structlog
from aiohttp import web
from clusterra_contracts.identity import now
from pydantic import ValidationError

from clusterra_gateway.http.answers.responses import redirect
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import form, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.consent_page import Question, consent_page, lifetime
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth_routes import AUTHORIZE, OAuthFailure, page_routes
from clusterra_gateway.program_sign_in.program import AuthorizationRequest, Back
from clusterra_gateway.program_sign_in.token_endpoint import CodeGrant

log = structlog.get_logger()

CONSENT = f"{AUTHORIZE}/consent"
_ERRORS = {"scope": "invalid_scope", "response_type": "unsupported_response_type"}
"""The codes of wrong parameters that have one of their own (RFC 6749, section 4.1.2.1)."""


api = page_routes(AUTHORIZE)


class AuthorizationDecision(AuthorizationRequest):
    """The request once more, with the person's decision."""

    decision: Literal["approve", "deny"]


class LoopbackHandlers:
    """The handlers of the page, and what the token endpoint does for a code."""

    def __init__(self, codes: AuthorizationCodes, tokens: ProgramTokens, issuer: str) -> None:
        self._codes = codes
        self._tokens = tokens
        self._issuer = issuer

    @api.get("authorize_page", AUTHORIZE, query=AuthorizationRequest, result="text/html")
    async def ask(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Asks the person whether a program on their machine may act for them. Programs open it in a browser.

        `redirect_uri` is where the program listens: `http://127.0.0.1:<port>/` or `http://[::1]:<port>/`. The browser
        comes back there with a `code` for `POST /v1/auth/token`, or with an `error`. Without a session, the browser is
        sent to sign in first.
        """
        try:
            asked = query(request, AuthorizationRequest)
        except InvalidRequest as wrong:
            back = _back(request)
            if back is None:
                raise
            names = [field.place for field in wrong.errors]
            error = next((_ERRORS[name] for name in names if name in _ERRORS), "invalid_request")
            described = f"wrong or missing: {', '.join(names)}"
            return self._led(back, error=error, error_description=described)
        told = {
            "The program runs": f"on the computer of this browser, and listens at {asked.redirect_uri}",
            "The machine calls itself": asked.machine,
            "Its token is valid for": lifetime(asked.token_seconds),
        }
        hidden = {name: str(value) for name, value in asked.model_dump().items() if value != ""}
        return consent_page(request, caller.member, Question(told, asked.scopes, CONSENT, hidden, asked.origin))

    @api.post("authorize_consent", CONSENT, body=AuthorizationDecision, status=303)
    async def decide(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Takes the person's decision, and sends the browser back to the program. The page's form comes here."""
        decided = await form(request, AuthorizationDecision)
        approved = decided.decision == "approve"
        log.info("authorization_decided", tenant=caller.member.tenant, user=caller.member.user, approved=approved)
        if not approved:
            return self._led(decided, error="access_denied")
        await self._tokens.check_room(caller.member)
        code = await self._codes.make(decided, caller.member)
        return self._led(decided, code=code)

    async def redeem(self, asked: CodeGrant) -> FreshToken:
        """Makes the token of a code, once. Revokes it when the program redeems the code again. Raises OAuthFailure."""
        known = await self._codes.known(asked.code)
        if known is None or not known.record.belongs_to(asked.redirect_uri, asked.code_verifier):
            raise OAuthFailure("invalid_grant", "the code, its redirect_uri or its code_verifier is wrong")
        if known.record.state == "redeemed":
            await self._tokens.withdraw(known.record, known.record.token_id)
            raise OAuthFailure("invalid_grant", "this code was redeemed before, and its token is revoked now")
        if known.record.valid_until <= now():
            raise OAuthFailure("invalid_grant", "this code has expired: begin again")
        return await self._tokens.issue(known.record, known.redeemed)

    def _led(self, back: Back, **answer: str) -> web.Response:
        """Sends the browser back to the program, with our own name (RFC 9207)."""
        return redirect(HTTPStatus.SEE_OTHER, back.address(**answer, iss=self._issuer))


def _back(request: web.Request) -> Back | None:
    """Where to tell the program that its request is wrong; None where this itself is."""
    try:
        return Back.model_validate(dict(request.query))
    except ValidationError:
        return None
