"""Signing in and out: `/v1/auth/*`."""

import hmac
import secrets
import time
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import ConditionFailed, Put
from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterra_gateway.accounts.directory import ACCOUNTS
from clusterra_gateway.accounts.records import Member, epoch
from clusterra_gateway.context import Gateway, gateway
from clusterra_gateway.http.errors import Forbidden, Unauthenticated
from clusterra_gateway.http.parameters import Query, body, query
from clusterra_gateway.http.replies import reply
from clusterra_gateway.identity.authentication import COOKIE, SESSION, Caller, signed_out_key
from clusterra_gateway.identity.oidc import new_secret
from clusterra_gateway.identity.origin import refuse_cross_site
from clusterra_gateway.identity.sessions import Claims, LoginState

log = structlog.get_logger()

LOGIN = "clusterra-login"
"""The audience of login states."""
LOGIN_COOKIE = "clusterra_login"
LOGIN_PATH = "/v1/auth"
LOGIN_SECONDS = 600.0


class LoginQuery(Query):
    """Where to go after the login: a path of our own origin."""

    return_to: Annotated[str, StringConstraints(pattern=r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$", max_length=1024)] = (
        "/v1/users/me"
    )


class Callback(Query):
    """What the issuer sends the browser back with (RFC 6749 4.1.2, RFC 9207); others may be with it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str = ""
    state: str = ""
    iss: str | None = None
    error: str = ""


class SignedIn(BaseModel):
    """Who signed in, and until when the cookie is good."""

    model_config = ConfigDict(frozen=True)

    name: str
    email: str
    tenant: str
    expires_at: Moment


async def login(request: web.Request) -> web.StreamResponse:
    """Send the browser to the issuer, with a cookie that only this login can be finished with."""
    parts = gateway(request)
    state = LoginState(
        state=new_secret(), nonce=new_secret(), verifier=new_secret(), return_to=query(request, LoginQuery).return_to
    )
    address = await parts.issuer.authorization_url(state=state.state, nonce=state.nonce, verifier=state.verifier)
    response = web.Response(status=302, headers={"Location": address, "Cache-Control": "no-store"})
    _set_cookie(parts, response, LOGIN_COOKIE, parts.session_keys.sign(LOGIN, state, seconds=LOGIN_SECONDS), LOGIN_PATH)
    return response


async def callback_redirect(request: web.Request) -> web.StreamResponse:
    """Finish a login in the browser's address bar, and go where it was begun for."""
    parts = gateway(request)
    member, claims, state = await _finish(request, query(request, Callback))
    response = web.Response(status=303, headers={"Location": state.return_to, "Cache-Control": "no-store"})
    _start_session(parts, response, member, claims)
    return response


async def callback(request: web.Request) -> web.StreamResponse:
    """Finish a login from a page of ours."""
    parts = gateway(request)
    refuse_cross_site(request.method, request.headers, parts.settings.origin)
    member, claims, _ = await _finish(request, await body(request, Callback))
    response = reply(SignedIn(name=member.user, email=member.email, tenant=member.tenant, expires_at=claims.expires_at))
    _start_session(parts, response, member, claims)
    return response


async def logout(request: web.Request, caller: Caller) -> web.StreamResponse:
    """End the session, everywhere: its cookie is worth nothing from now on."""
    parts = gateway(request)
    if caller.credential != "session":
        raise Forbidden("a token has no session to end", hint="DELETE /v1/users/me/tokens/{token_id} revokes it")
    key = signed_out_key(caller.member.id, caller.credential_id)
    try:
        await parts.directory.store.write(Put(ACCOUNTS, key, {}, Absent(), epoch(caller.expires_at)))
    except ConditionFailed:
        log.info("signed_out_twice", user=caller.member.user)
    parts.authentication.forget(caller.credential_id)
    response = web.Response(status=204)
    response.del_cookie(COOKIE, path="/", httponly=True, samesite="Lax", secure=parts.settings.secure)
    return response


async def _finish(request: web.Request, answer: Callback) -> tuple[Member, Claims, LoginState]:
    parts = gateway(request)
    begun = request.cookies.get(LOGIN_COOKIE)
    if begun is None:
        raise Unauthenticated("no login was begun in this browser", hint="begin at /v1/auth/login")
    state = parts.session_keys.verify(LOGIN, begun, LoginState)
    if not hmac.compare_digest(state.state.encode(), answer.state.encode()):
        raise Unauthenticated("this answer belongs to another login", hint="begin again at /v1/auth/login")
    if answer.iss is not None and answer.iss != parts.settings.oidc_issuer:
        raise Unauthenticated("this answer comes from another issuer", hint="begin again at /v1/auth/login")
    if answer.error or not answer.code:
        raise Unauthenticated("the sign-in was not completed", hint="begin again at /v1/auth/login")
    identity = await parts.issuer.identity(code=answer.code, verifier=state.verifier, nonce=state.nonce)
    member = await parts.joining.member(identity)
    issued = int(time.time())
    claims = Claims(
        sub=member.id, jti=secrets.token_hex(16), iat=issued, exp=issued + int(parts.settings.session_seconds)
    )
    log.info("signed_in", tenant=member.tenant, user=member.user)
    return member, claims, state


def _start_session(parts: Gateway, response: web.Response, member: Member, claims: Claims) -> None:
    session = parts.session_keys.sign(SESSION, claims, seconds=parts.settings.session_seconds)
    _set_cookie(parts, response, COOKIE, session, "/", seconds=parts.settings.session_seconds)
    response.del_cookie(LOGIN_COOKIE, path=LOGIN_PATH, httponly=True, samesite="Lax", secure=parts.settings.secure)


def _set_cookie(
    parts: Gateway, response: web.Response, name: str, value: str, path: str, seconds: float = LOGIN_SECONDS
) -> None:
    response.set_cookie(
        name, value, path=path, max_age=int(seconds), httponly=True, samesite="Lax", secure=parts.settings.secure
    )
