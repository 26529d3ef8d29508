"""The gateway's two cookies: the state of a login in progress, and the session."""

import secrets
import time
from datetime import datetime

from aiohttp import web

from clusterra_gateway.http.errors import Unauthenticated
from clusterra_gateway.identity.authentication import COOKIE, SESSION
from clusterra_gateway.identity.sessions import Claims, LoginState, SessionKeys

LOGIN = "clusterra-login"
"""The audience of login states."""
LOGIN_COOKIE = "clusterra_login"
LOGIN_PATH = "/v1/auth"
LOGIN_SECONDS = 600.0


class Cookies:
    """Sets, reads and deletes the cookies. With `secure`, browsers send them over HTTPS only."""

    def __init__(self, keys: SessionKeys, *, secure: bool, session_seconds: float) -> None:
        self._keys = keys
        self._secure = secure
        self._session_seconds = session_seconds

    def set_login(self, response: web.Response, state: LoginState) -> None:
        """Binds a login to this browser."""
        signed = self._keys.sign(LOGIN, state, seconds=LOGIN_SECONDS)
        self._set(response, LOGIN_COOKIE, signed, path=LOGIN_PATH, seconds=LOGIN_SECONDS)

    def login_state(self, request: web.Request) -> LoginState:
        """The state of the login that was begun in this browser. Raises Unauthenticated."""
        signed = request.cookies.get(LOGIN_COOKIE)
        if signed is None:
            raise Unauthenticated("no login was begun in this browser", hint="begin at /v1/auth/login")
        return self._keys.verify(LOGIN, signed, LoginState)

    def new_session(self, member_id: str) -> Claims:
        """The claims of a session that begins now."""
        issued = int(time.time())
        return Claims(sub=member_id, jti=secrets.token_hex(16), iat=issued, exp=issued + int(self._session_seconds))

    def session_instead(self, member_id: str, until: datetime) -> Claims:
        """The claims of a session in place of another one. It ends when that one would have."""
        return self.new_session(member_id).model_copy(update={"exp": int(until.timestamp())})

    def set_session(self, response: web.Response, claims: Claims) -> None:
        """Starts the session in this browser, and ends the login."""
        seconds = claims.exp - claims.iat
        session = self._keys.sign(SESSION, claims, seconds=seconds)
        self._set(response, COOKIE, session, path="/", seconds=seconds)
        self._delete(response, LOGIN_COOKIE, path=LOGIN_PATH)

    def delete_session(self, response: web.Response) -> None:
        """Ends the session in this browser."""
        self._delete(response, COOKIE, path="/")

    def _set(self, response: web.Response, name: str, value: str, *, path: str, seconds: float) -> None:
        response.set_cookie(
            name, value, path=path, max_age=int(seconds), httponly=True, samesite="Lax", secure=self._secure
        )

    def _delete(self, response: web.Response, name: str, *, path: str) -> None:
        response.del_cookie(name, path=path, httponly=True, samesite="Lax", secure=self._secure)
