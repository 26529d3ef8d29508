"""The gateway's two cookies: the state of a login in progress, and the session."""

import secrets
import time

from aiohttp import web

from clusterra_gateway.http.answers.middleware import RENEWED_SESSION
from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access.authentication import COOKIE, SESSION, Caller, session_cookie
from clusterra_gateway.identity.access.signed_tokens import Claims, LoginState, SigningKeys
from clusterra_gateway.settings import Settings

LOGIN = "clusterra-login"
"""The audience of login states."""
LOGIN_COOKIE = "clusterra_login"
HOST_LOGIN_COOKIE = f"__Host-{LOGIN_COOKIE}"
"""The name over HTTPS, for the reason of `HOST_COOKIE`: no other host of our domain can plant a login of its own, at
the end of which the browser would be signed in as somebody else."""
LOGIN_SECONDS = 600.0
LEAST_GAIN_SECONDS = 60.0
"""By how much a session must become longer to be renewed."""


class Cookies:
    """Sets, reads and deletes the cookies. With `secure`, browsers send them over HTTPS only."""

    def __init__(self, keys: SigningKeys, settings: Settings) -> None:
        self._keys = keys
        self._secure = settings.secure
        self._session_seconds = min(settings.session_seconds, settings.session_max_seconds)
        self._session_max_seconds = settings.session_max_seconds
        self._session_cookie = session_cookie(secure=settings.secure)
        self._login_cookie = HOST_LOGIN_COOKIE if settings.secure else LOGIN_COOKIE

    def set_login(self, response: web.Response, state: LoginState) -> None:
        """Binds a login to this browser."""
        signed = self._keys.sign(LOGIN, state, seconds=LOGIN_SECONDS)
        self._set(response, self._login_cookie, signed, seconds=LOGIN_SECONDS)

    def login_state(self, request: web.Request) -> LoginState:
        """The state of the login that was begun in this browser. Raises Unauthenticated."""
        signed = request.cookies.get(self._login_cookie)
        if signed is None:
            raise Unauthenticated("no login was begun in this browser", hint="begin at /v1/auth/login")
        return self._keys.verify(LOGIN, signed, LoginState)

    def new_session(self, member_id: str) -> Claims:
        """The claims of a session that begins now."""
        issued = int(time.time())
        expires = issued + int(self._session_seconds)
        return Claims(sub=member_id, jti=secrets.token_hex(16), iat=issued, exp=expires, auth_time=issued)

    def session_instead(self, member_id: str, caller: Caller) -> Claims:
        """The claims of a session in place of the caller's. It ends when that one would have."""
        times = {"exp": int(caller.expires_at.timestamp()), "auth_time": int(caller.since.timestamp())}
        return self.new_session(member_id).model_copy(update=times)

    def renew_session(self, request: web.Request, caller: Caller) -> None:
        """Has the response renew the session in the request's cookie, once half of its time is over.

        A session ends `session_max_seconds` after the sign-in, however often it is used.
        """
        if caller.credential != "session" or "Authorization" in request.headers:
            return
        issued, until = time.time(), caller.expires_at.timestamp()
        expires = min(issued + self._session_seconds, caller.since.timestamp() + self._session_max_seconds)
        if until - issued > self._session_seconds / 2 or expires < until + LEAST_GAIN_SECONDS:
            return
        claims = Claims(
            sub=caller.member.id,
            jti=caller.credential_id,
            iat=int(issued),
            exp=int(expires),
            auth_time=int(caller.since.timestamp()),
        )
        response = web.Response()
        self._set_session(response, claims)
        request[RENEWED_SESSION] = response.cookies[self._session_cookie].output(header="").strip()

    def set_session(self, response: web.Response, claims: Claims) -> None:
        """Starts the session in this browser, and ends the login."""
        if self._session_cookie != COOKIE:
            self._delete(response, COOKIE)
        self._set_session(response, claims)
        self._delete(response, self._login_cookie)

    def delete_session(self, response: web.Response) -> None:
        """Ends the session in this browser."""
        for name in {self._session_cookie, COOKIE}:
            self._delete(response, name)

    def _set_session(self, response: web.Response, claims: Claims) -> None:
        seconds = claims.exp - claims.iat
        session = self._keys.sign(SESSION, claims, seconds=seconds)
        self._set(response, self._session_cookie, session, seconds=seconds)

    def _set(self, response: web.Response, name: str, value: str, *, seconds: float) -> None:
        # The prefix `__Host-` demands this path, and no domain.
        response.set_cookie(
            name, value, path="/", max_age=int(seconds), httponly=True, samesite="Lax", secure=self._secure
        )

    def _delete(self, response: web.Response, name: str) -> None:
        response.del_cookie(name, path="/", httponly=True, samesite="Lax", secure=self._secure)
