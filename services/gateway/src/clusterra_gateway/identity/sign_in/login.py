"""Signing in and out: the handlers of `/v1/auth/*`."""

import hmac
from http import HTTPStatus
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import ConfigDict, StringConstraints

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content, redirect
from clusterra_gateway.http.requests.errors import Forbidden, InvalidRequest, RequestError, Unauthenticated
from clusterra_gateway.http.requests.parameters import Body, Parameter, Query, body, query
from clusterra_gateway.http.routes.route_group import public_routes
from clusterra_gateway.identity.access.authentication import Authentication, Caller
from clusterra_gateway.identity.access.cookies import Cookies
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.access.signed_tokens import LoginState
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.issuers.configuration import DEFAULT, NAME_PATTERN, IssuerName
from clusterra_gateway.identity.issuers.oidc import Issuer, new_secret
from clusterra_gateway.identity.sign_in.enrolment import INVITATION_PATTERN, Enrolment, InvitationId
from clusterra_gateway.identity.sign_in.problem_page import problem_page, wants_page
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.settings import IssuerKind, origin_of

log = structlog.get_logger()


_ORIGIN = r"https?://[a-z0-9.-]+(:[0-9]{1,5})?"
ReturnTo = Annotated[str, StringConstraints(pattern=rf"^({_ORIGIN})?/([!-.0-\[\]-~][!-\[\]-~]*)?$", max_length=1024)]
PROFILE = "/v1/users/me"
DOMAIN_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"
ISSUER_NAME = Parameter("issuer_name", "path", NAME_PATTERN, "An issuer of `GET /v1/auth/issuers`.")


api = public_routes(ISSUER_NAME)
private = caller_routes(reads=Needs("profile"))


class LoginQuery(Query):
    """The path of our own origin, or the address at a console's, to go to after the login, and where to sign in.

    That is the issuer with this name; otherwise the one of an address's domain; otherwise the default one.
    """

    return_to: ReturnTo = PROFILE
    issuer: IssuerName | None = None
    domain: Annotated[str, StringConstraints(to_lower=True, pattern=DOMAIN_PATTERN, max_length=253)] | None = None


class AcceptInvitation(Body):
    """The token of an invitation, and where to go after the login."""

    token: Annotated[str, StringConstraints(pattern=INVITATION_PATTERN)]
    return_to: ReturnTo = PROFILE
    issuer: IssuerName | None = None


class ServedIssuer(ResponseBody):
    """An issuer that people may sign in at."""

    name: str
    issuer: str
    kind: IssuerKind
    default: bool


class ServedIssuerList(ResponseBody):
    """All of them, the default first."""

    issuers: tuple[ServedIssuer, ...]


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
        issuers: ServedIssuers,
        enrolment: Enrolment,
        cookies: Cookies,
        authentication: Authentication,
        revocations: Revocations,
    ) -> None:
        self._revocations = revocations
        self._issuers = issuers
        self._enrolment = enrolment
        self._cookies = cookies
        self._authentication = authentication

    @api.get("auth_issuers", "/v1/auth/issuers", result=ServedIssuerList)
    async def issuers(self, _request: web.Request) -> web.StreamResponse:
        """Lists the issuers that people may sign in at, for `issuer` of a login."""
        served = [
            ServedIssuer(
                name=each.given.name,
                issuer=each.identifier,
                kind=each.given.kind,
                default=each.given.name == DEFAULT,
            )
            for each in self._issuers.all
        ]
        return json_response(ServedIssuerList(issuers=tuple(served)))

    @api.get("auth_login", "/v1/auth/login", status=302, query=LoginQuery)
    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begins a login: sends the browser to an OIDC issuer, with a cookie that binds the login to this browser.

        404 for an unknown issuer, and for a domain whose people cannot sign in here. 429 for an address that asks for
        too many domains.
        """
        wanted = query(request, LoginQuery)
        if wanted.domain is not None:
            self._authentication.admit_sign_in(request)
        issuer = await self._chosen(wanted.issuer, wanted.domain)
        address, state = await self._begun(issuer, wanted.return_to)
        response = redirect(HTTPStatus.FOUND, address)
        self._cookies.set_login(response, state)
        return response

    @api.post("auth_login_invited", "/v1/auth/login", body=AcceptInvitation, result=LoginAddress)
    async def begin_invited(self, request: web.Request) -> web.StreamResponse:
        """Begins a login that accepts an invitation: whoever signs in with its address joins its tenant.

        Each invitation is accepted once. The token travels in the body, so that no address has it. Without `issuer`,
        the login is at the issuer of the invited address's domain. 403 for an invitation that is no longer open, 404
        for an unknown issuer, 429 for an address that begins too many of these logins.
        """
        self._authentication.reject_cross_site(request)
        self._authentication.admit_sign_in(request)
        wanted = await body(request, AcceptInvitation)
        invitation, domain = await self._enrolment.presented(wanted.token)
        issuer = await self._chosen(wanted.issuer, domain)
        address, state = await self._begun(issuer, wanted.return_to, invitation)
        response = json_response(LoginAddress(location=address))
        self._cookies.set_login(response, state)
        return response

    @api.get("auth_callback_redirect", "/v1/auth/callback", status=303, query=Callback)
    @api.get("auth_callback_of_issuer", "/v1/auth/callback/{issuer_name}", status=303, query=Callback)
    async def callback_redirect(self, request: web.Request) -> web.StreamResponse:
        """Finishes a login when an issuer redirects the browser here, and sends it on to `return_to`.

        401 for an answer that belongs to no login of this browser, or that is not the issuer's. 403 for a person who
        may not enter, 409 where no user name is free, 429 for an address that finishes too many logins. A browser gets
        these as a page that leads back to the sign-in.
        """
        try:
            member, state = await self._finish(request, query(request, Callback), came_from=_named(request))
        except RequestError as error:
            if not wants_page(request):
                raise
            return problem_page(request, error, self._wanted_path(request))
        response = redirect(HTTPStatus.SEE_OTHER, state.return_to)
        self._cookies.set_session(response, self._cookies.new_session(member.id))
        return response

    @api.post("auth_callback", "/v1/auth/callback", body=Callback, result=SignedIn)
    async def callback(self, request: web.Request) -> web.StreamResponse:
        """Finishes a login from a page of our own origin.

        401, 403, 409 and 429 have the same reasons as where an issuer redirects the browser. 403 also for a page of
        another site.
        """
        self._authentication.reject_cross_site(request)
        member, _ = await self._finish(request, await body(request, Callback))
        session = self._cookies.new_session(member.id)
        response = json_response(
            SignedIn(name=member.user, email=member.email, tenant=member.tenant, expires_at=session.expires_at)
        )
        self._cookies.set_session(response, session)
        return response

    @private.post("auth_logout", "/v1/auth/logout")
    async def logout(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Ends the session. Its cookie is no longer valid anywhere."""
        if caller.credential != "session":
            raise Forbidden("a token has no session to end", hint="DELETE /v1/users/me/tokens/{token_id} revokes it")
        await self._authentication.sign_out(caller)
        await self._revocations.signed_out(caller.member.tenant, caller.credential_id)
        response = no_content()
        self._cookies.delete_session(response)
        return response

    async def _chosen(self, name: IssuerName | None, domain: str | None) -> Issuer:
        """The issuer with this name; otherwise that of the domain; otherwise the default one. Raises NotFound."""
        if name is not None:
            return self._issuers.named(name)
        if domain is None:
            return self._issuers.default
        return self._issuers.of_domain(domain, await self._enrolment.issuers_of(domain))

    async def _begun(
        self, issuer: Issuer, return_to: str, invitation: InvitationId | None = None
    ) -> tuple[str, LoginState]:
        if not return_to.startswith("/") and not self._is_ours(return_to):
            raise InvalidRequest(
                "return_to leads to another site", hint="give a path, or an address in CLUSTERRA_CONSOLE_ORIGINS"
            )
        state = LoginState(
            state=new_secret(),
            nonce=new_secret(),
            verifier=new_secret(),
            return_to=return_to,
            invitation="" if invitation is None else str(invitation),
            issuer=issuer.identifier,
        )
        address = await issuer.authorization_url(state=state.state, nonce=state.nonce, verifier=state.verifier)
        return address, state

    def _wanted_path(self, request: web.Request) -> str:
        """Where the login that this browser has begun was to lead to, if that is a path of our own origin."""
        try:
            wanted = self._cookies.login_state(request).return_to
        except Unauthenticated:
            return ""
        return wanted if wanted.startswith("/") else ""

    def _is_ours(self, address: str) -> bool:
        try:
            return origin_of(address) in self._authentication.origins
        except ValueError:
            return False

    async def _finish(
        self, request: web.Request, answer: Callback, *, came_from: str | None = None
    ) -> tuple[Member, LoginState]:
        state = self._cookies.login_state(request)
        self._authentication.admit_sign_in(request)
        if not hmac.compare_digest(state.state.encode(), answer.state.encode()):
            raise Unauthenticated("this answer belongs to another login", hint="begin again at /v1/auth/login")
        issuer = self._issuers.begun_at(state.issuer)
        if came_from not in (None, issuer.given.name) or not await issuer.answers_as(answer.iss):
            raise Unauthenticated("this answer comes from another issuer", hint="begin again at /v1/auth/login")
        if answer.error or not answer.code:
            raise Unauthenticated("the sign-in was not completed", hint="begin again at /v1/auth/login")
        identity = await issuer.identity(code=answer.code, verifier=state.verifier, nonce=state.nonce)
        invited = InvitationId.parse(state.invitation) if state.invitation else None
        member = await self._enrolment.member(identity, invited)
        log.info("signed_in", tenant=member.tenant, user=member.user)
        return member, state


def _named(request: web.Request) -> str:
    """The name of the issuer whose own address the browser was sent back to."""
    return request.match_info.get("issuer_name", DEFAULT)
