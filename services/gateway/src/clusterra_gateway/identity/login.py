"""Signing in and out: the handlers of `/v1/auth/*`."""

import hmac
from http import HTTPStatus
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import ConfigDict, StringConstraints

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.http.errors import Forbidden, Unauthenticated
from clusterra_gateway.http.parameters import Body, Query, body, query
from clusterra_gateway.http.responses import ResponseBody, json_response, no_content, redirect
from clusterra_gateway.identity import invitation_token
from clusterra_gateway.identity.authentication import Authentication, Caller
from clusterra_gateway.identity.cookies import Cookies
from clusterra_gateway.identity.enrolment import Enrolment
from clusterra_gateway.identity.invitation_token import InvitationId
from clusterra_gateway.identity.revocations import Revocations
from clusterra_gateway.identity.sessions import LoginState
from clusterra_gateway.issuers.oidc import Issuer, new_secret

log = structlog.get_logger()


ReturnTo = Annotated[str, StringConstraints(pattern=r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$", max_length=1024)]
PROFILE = "/v1/users/me"


class LoginQuery(Query):
    """The path of our own origin to go to after the login."""

    return_to: ReturnTo = PROFILE


class AcceptInvitation(Body):
    """The token of an invitation, and the path of our own origin to go to after the login."""

    token: Annotated[str, StringConstraints(pattern=invitation_token.PATTERN)]
    return_to: ReturnTo = PROFILE


class LoginAddress(ResponseBody):
    """Where the browser is to go on with the login."""

    location: str


class Callback(Query):
    """What the issuer sends the browser back with (RFC 6749 4.1.2, RFC 9207). It may add other parameters."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str = ""
    state: str = ""
    iss: str | None = None
    error: str = ""


class SignedIn(ResponseBody):
    """The person who signed in, and the time until which the session cookie is valid."""

    name: str
    email: str
    tenant: str
    expires_at: Moment


class Login:
    """The handlers of the login."""

    def __init__(
        self,
        issuer: Issuer,
        enrolment: Enrolment,
        cookies: Cookies,
        authentication: Authentication,
        revocations: Revocations,
    ) -> None:
        self._revocations = revocations
        self._issuer = issuer
        self._enrolment = enrolment
        self._cookies = cookies
        self._authentication = authentication

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begins a login: sends the browser to the OIDC issuer, with a cookie that binds the login to this browser."""
        address, state = await self._begun(query(request, LoginQuery).return_to)
        response = redirect(HTTPStatus.FOUND, address)
        self._cookies.set_login(response, state)
        return response

    async def begin_invited(self, request: web.Request) -> web.StreamResponse:
        """Begins a login that accepts an invitation: whoever signs in with its address joins its tenant.

        Each invitation is accepted once. The token travels in the body, so that no address has it.
        """
        self._authentication.reject_cross_site(request)
        wanted = await body(request, AcceptInvitation)
        invitation = await self._enrolment.presented(wanted.token)
        address, state = await self._begun(wanted.return_to, invitation)
        response = json_response(LoginAddress(location=address))
        self._cookies.set_login(response, state)
        return response

    async def callback_redirect(self, request: web.Request) -> web.StreamResponse:
        """Finishes a login when the issuer redirects the browser here, and sends it on to `return_to`."""
        member, state = await self._finish(request, query(request, Callback))
        response = redirect(HTTPStatus.SEE_OTHER, state.return_to)
        self._cookies.set_session(response, self._cookies.new_session(member.id))
        return response

    async def callback(self, request: web.Request) -> web.StreamResponse:
        """Finishes a login from a page of our own origin."""
        self._authentication.reject_cross_site(request)
        member, _ = await self._finish(request, await body(request, Callback))
        session = self._cookies.new_session(member.id)
        response = json_response(
            SignedIn(name=member.user, email=member.email, tenant=member.tenant, expires_at=session.expires_at)
        )
        self._cookies.set_session(response, session)
        return response

    async def logout(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Ends the session. Its cookie is no longer valid anywhere."""
        if caller.credential != "session":
            raise Forbidden("a token has no session to end", hint="DELETE /v1/users/me/tokens/{token_id} revokes it")
        await self._authentication.sign_out(caller)
        await self._revocations.signed_out(caller.member.tenant, caller.credential_id)
        response = no_content()
        self._cookies.delete_session(response)
        return response

    async def _begun(self, return_to: str, invitation: InvitationId | None = None) -> tuple[str, LoginState]:
        state = LoginState(
            state=new_secret(),
            nonce=new_secret(),
            verifier=new_secret(),
            return_to=return_to,
            invitation="" if invitation is None else str(invitation),
            issuer=self._issuer.name,
        )
        address = await self._issuer.authorization_url(state=state.state, nonce=state.nonce, verifier=state.verifier)
        return address, state

    async def _finish(self, request: web.Request, answer: Callback) -> tuple[Member, LoginState]:
        state = self._cookies.login_state(request)
        if not hmac.compare_digest(state.state.encode(), answer.state.encode()):
            raise Unauthenticated("this answer belongs to another login", hint="begin again at /v1/auth/login")
        if state.issuer not in ("", self._issuer.name) or answer.iss not in (None, self._issuer.name):
            raise Unauthenticated("this answer comes from another issuer", hint="begin again at /v1/auth/login")
        if answer.error or not answer.code:
            raise Unauthenticated("the sign-in was not completed", hint="begin again at /v1/auth/login")
        identity = await self._issuer.identity(code=answer.code, verifier=state.verifier, nonce=state.nonce)
        invited = InvitationId.parse(state.invitation) if state.invitation else None
        member = await self._enrolment.member(identity, invited)
        log.info("signed_in", tenant=member.tenant, user=member.user)
        return member, state
